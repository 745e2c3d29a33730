"""Large payloads in files: the codec of a queue whose messages name the file of a payload above a size.

The pattern is the Claim Check of Hohpe and Woolf, Enterprise Integration Patterns. This is the one codec that does IO:
it writes and reads files in the thread that publishes, and that reads a payload. fsspec is imported when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, TypeVar

from rmq_core.envelope.codec import nonce
from rmq_core.envelope.payloads import KINDS, decode_payload, encode_payload
from rmq_core.envelope.typed import Typed
from rmq_core.errors import ConfigurationError, InvalidPayload
from rmq_core.policy import check_all, whole

T = TypeVar("T")
_REFERENCE = "rmq-claim-check"
_NAME = re.compile(f"[{''.join(sorted(KINDS))}]-[0-9a-f]{{64}}")


@dataclass(frozen=True, slots=True)
class ClaimCheck(Generic[T]):
    """Payloads above a size are stored as files: `LeasedConfig(codec=ClaimCheck("s3://bucket/orders"))`.

    url: the folder of the files, as fsspec reads it: s3://, gs://, abfs://, a local path and others. above: payloads of
    more bytes than this are stored there, before the message is. codec: Typed(Order) for payloads of one type.
    storage_options: what fsspec passes to the file system.

    A message holds the SHA-256 of its payload, which is the name of the file, and never says where the folder is: that
    is up to the program that reads. `message.payload` reads the file at each access. RMQ deletes no file. Raises
    ConfigurationError without fsspec or the package of the file system.
    """

    url: str
    above: int = 256 * 1024
    codec: Typed[T] | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    _last: list[tuple[str, bytes]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_all(whole, self, "above", minimum=1)
        if self.codec is not None and not isinstance(self.codec, Typed):
            raise ConfigurationError(f"codec must be Typed(...), such as Typed(Order), not {self.codec!r}")
        self._folder()

    def write(self, payload: Any) -> tuple[Any, Any]:
        """Return a payload as it is read, and what is stored of it. Raises PayloadError, and what fsspec raises."""
        if name := _named(payload):  # an edit, or a search by deduplication key, passes what is stored
            return self._read("", name), payload
        value, written = (payload, payload) if self.codec is None else self.codec.write(payload)
        kind, data = encode_payload(written)
        if len(data) <= self.above:
            return value, written
        name = f"{kind}-{sha256(data).hexdigest()}"
        self._store(name, data)
        return value, {_REFERENCE: name, "bytes": len(data)}

    def read(self, message_id: str, kind: str, raw: bytes) -> T:
        """Return the payload of a message. Raises InvalidPayload if its file is gone, and what fsspec raises."""
        name = _named(decode_payload(kind, raw)) if kind == "j" else None
        return self._read(message_id, name) if name else self._made(message_id, kind, raw)

    def _read(self, message_id: str, name: str) -> T:
        for last, data in self._last:  # a batch reads a payload to check it, and then its user does
            if last == name:
                return self._made(message_id, name[0], data)
        system, folder = self._folder()
        try:
            found: bytes = system.cat_file(f"{folder}/{name}")
        except FileNotFoundError:
            raise InvalidPayload(message_id, f"its file {name} is not in {self.url}") from None
        if sha256(found).hexdigest() != name[2:]:
            raise OSError(f"the file {name} in {self.url} has other bytes than were published")
        self._last[:] = [(name, found)]
        return self._made(message_id, name[0], found)

    def _made(self, message_id: str, kind: str, raw: bytes) -> T:
        made: T = decode_payload(kind, raw) if self.codec is None else self.codec.read(message_id, kind, raw)
        return made

    def _store(self, name: str, data: bytes) -> None:
        """Write a file, also one that is there: so a rule of the bucket that deletes old files counts anew."""
        system, folder = self._folder()
        system.makedirs(folder, exist_ok=True)
        if "file" not in system.protocol:
            system.pipe_file(f"{folder}/{name}", data)
            return
        system.pipe_file(made := f"{folder}/{name}.{nonce()}", data)  # so that no reader sees half of it
        system.mv(made, f"{folder}/{name}")

    def _folder(self) -> tuple[Any, str]:
        """Return the file system, which fsspec keeps for the next time, and the folder in it."""
        try:
            from fsspec.core import url_to_fs

            system, folder = url_to_fs(self.url, **self.storage_options)
        except (ImportError, ValueError) as error:
            why = f"codec: ClaimCheck({self.url!r}) needs fsspec and its file system: {error}"
            raise ConfigurationError(why) from error
        return system, folder


def _named(payload: Any) -> str | None:
    """Return the name of a file that a stored payload refers to."""
    name = payload.get(_REFERENCE) if isinstance(payload, dict) else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None
