"""The names that users and gateways use for the parts of a queue, and the leased queue that stores them.

`orders::pending`, `orders::processing` and so on are names only: the messages are stored under the keys of the leased
queue `orders`, documented in `rmq_core.kernel.keys`. A name that a leased queue cannot have, such as `{orders}`, is
percent-encoded; a separator other than `::` is kept, followed by `%`. Two queues never share a leased queue.
"""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import quote

from rmq_core.errors import ConfigurationError
from rmq_core.redis_message_queue import config

SEPARATOR = "::"


class QueuePart(StrEnum):
    """The parts of a queue; each value is the suffix of the part's name."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTER = "dlq"
    OLD_DEAD_LETTER = "dead_letter"


class QueueKeyManager:
    """`queue.key`: the names of a queue's parts."""

    def __init__(self, name: str, separator: str = SEPARATOR, dead_letter: str | None = None) -> None:
        config.text("name", name)
        config.text("key_separator", separator)
        if separator in name:
            raise ConfigurationError(f"'name' must not hold the key separator {separator!r}, but {name!r} does")
        self._base = name + separator
        self.name, self.separator = name, separator
        self.pending, self.processing = self._base + QueuePart.PENDING, self._base + QueuePart.PROCESSING
        self.completed, self.failed = self._base + QueuePart.COMPLETED, self._base + QueuePart.FAILED
        self.dead_letter = dead_letter or self._base + QueuePart.DEAD_LETTER
        """The name of the dead letters; a gateway may choose it."""
        self.deduplication_prefix = f"{self._base}deduplication{separator}"

    def deduplication(self, key: str) -> str:
        """Return the name under which a deduplication key is remembered."""
        return self.deduplication_prefix + key

    def check_slots(self) -> None:
        """Raise ConfigurationError unless a hash tag puts all parts into one slot, as a cluster requires."""
        tag = hash_tag(self.pending)
        if tag is None or hash_tag(self.name) != tag:
            raise ConfigurationError(
                f"'name' must hold a hash tag for a Redis Cluster, for example '{{{self.name.strip('{}')}}}', "
                "so that all keys of the queue share a slot"
            )
        if hash_tag(self.dead_letter) != tag:
            raise ConfigurationError(
                f"'dead_letter_queue' must have the hash tag {{{tag}}} of the queue; {self.dead_letter!r} does not"
            )


def hash_tag(key: str) -> str | None:
    """Return the hash tag of a key, which determines its slot in a cluster; None if the whole key determines it."""
    _, _, rest = key.partition("{")
    tag, end, _ = rest.partition("}")
    return tag if tag and end else None


def place(key: str) -> tuple[str, QueuePart]:
    """Return the engine's queue and the part that a name stands for. Raises ConfigurationError for other names."""
    for part in QueuePart:
        if isinstance(key, str) and key.endswith(part) and len(key) > len(part):
            found = QueuePart.DEAD_LETTER if part is QueuePart.OLD_DEAD_LETTER else part
            return engine_name(key.removesuffix(part)), found
    raise ConfigurationError(
        f"{key!r} is no part of a queue; pass a name such as queue.key.pending, 'orders{SEPARATOR}pending'"
    )


def engine_name(base: str) -> str:
    """Return the name of the leased queue for `<name><separator>`."""
    plain = base.removesuffix(SEPARATOR)
    mark = "" if plain != base else "%"
    return "".join(_written(character) for character in plain) + mark


def _written(character: str) -> str:
    return quote(character, safe="") if character in "{}%" or not character.isprintable() else character
