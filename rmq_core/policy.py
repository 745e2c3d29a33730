"""Policies as small frozen values, such as backoff and overflow; checks of settings, and times. Pure: no clock."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol, runtime_checkable

from rmq_core.errors import ConfigurationError, PayloadError

_LONGEST_S = 10**9  # 31 years; the scripts rely on times of at most 14 digits in ms


def seconds(parameter: str, value: timedelta | float, *, minimum: float = 0) -> float:
    """Return a `timedelta` or a number as seconds; raise a ConfigurationError that names the parameter."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not minimum <= number <= _LONGEST_S:
        raise ConfigurationError(f"{parameter} must be a timedelta or {minimum} to {_LONGEST_S} seconds, not {value!r}")
    return number


def milliseconds(parameter: str, value: timedelta | float, *, minimum: float = 0) -> int:
    """Return `seconds` in whole milliseconds, rounded up so that a duration above zero never becomes zero."""
    return -int(-seconds(parameter, value, minimum=minimum) * 1000 // 1)


def delay_in_ms(delay: timedelta | float | None) -> int:
    """Return the delay of a message in milliseconds; None is no delay."""
    return 0 if delay is None else milliseconds("delay", delay)


def moment(ms: float | bytes | str) -> datetime:
    """Return a time of the server, which is in milliseconds."""
    return datetime.fromtimestamp(float(ms) / 1000, UTC)


def age_s(since_ms: bytes | int, now_ms: bytes | int) -> float | None:
    """Return for how long something has been there; None when it is not there, for which scripts give no time."""
    return max(0.0, (int(now_ms) - int(since_ms)) / 1000) if since_ms else None


def whole(parameter: str, value: int, *, minimum: int = 0) -> int:
    """Return a whole number; raise a ConfigurationError that names the parameter. Booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigurationError(f"{parameter} must be a whole number >= {minimum}, not {value!r}")
    return value


def check_all(
    check: Callable[..., object], config: object, *names: str, minimum: float = 0, optional: bool = False
) -> None:
    """Check settings of one kind by `seconds` or `whole`; optional: they may be None."""
    for name in names:
        value = getattr(config, name)
        if value is not None or not optional:
            check(name, value, minimum=minimum)


@runtime_checkable
class Backoff(Protocol):
    """How long a failed message waits before its next delivery."""

    def delay(self, deliveries: int) -> float:
        """Return the seconds to wait after the given number of deliveries (1 after the first)."""
        ...  # pragma: no cover


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base * 2 ** (deliveries - 1)` seconds up to `cap`, the last `jitter` share of it random."""

    base: float
    cap: float
    jitter: float

    def delay(self, deliveries: int) -> float:
        longest = min(self.cap, self.base * 2.0 ** min(max(deliveries, 1) - 1, 1000))
        return longest * (1 - self.jitter * random.random())


def exponential(base: timedelta | float = 1, cap: timedelta | float = 300, jitter: float = 0.5) -> Backoff:
    """Return delays that double from `base` to `cap` (seconds or timedelta).

    `jitter` is the share (0 to 1) of each delay that is drawn at random, so that messages which failed together are not
    redelivered together (Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
    """
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        raise ConfigurationError(f"jitter must be between 0 and 1, not {jitter!r}")
    return Exponential(seconds("base", base), seconds("cap", cap), jitter)


@dataclass(frozen=True, slots=True)
class Overflow:
    """The behaviour of publish when `max_ready` messages wait: `RAISE`, `DROP_OLDEST` or `BLOCK(timeout)`."""

    kind: str
    timeout: float = 0

    RAISE: ClassVar[Overflow]
    DROP_OLDEST: ClassVar[Overflow]

    @staticmethod
    def BLOCK(timeout: timedelta | float) -> Overflow:
        """Wait up to `timeout` (seconds or timedelta) for room, then raise QueueFull."""
        return Overflow("block", seconds("timeout", timeout))


Overflow.RAISE = Overflow("raise")
Overflow.DROP_OLDEST = Overflow("drop_oldest")


@dataclass(frozen=True, slots=True)
class Durability:
    """Publish and ack return only when `replicas` replicas, and with `aof` the local AOF too, have their writes.

    `replicas` uses WAIT, `aof` WAITAOF (Redis 7.2 or later); `timeout` is in seconds. See redis.io/commands/wait.
    """

    replicas: int = 1
    timeout: float = 1
    aof: bool = False

    def __post_init__(self) -> None:
        whole("durability.replicas", self.replicas)
        milliseconds("durability.timeout", self.timeout, minimum=0.001)

    def command(self) -> tuple[str | int, ...]:
        """Return the command that confirms the writes of its connection."""
        timeout_ms = milliseconds("durability.timeout", self.timeout)
        if self.aof:
            return ("WAITAOF", 1, self.replicas, timeout_ms)
        return ("WAIT", self.replicas, timeout_ms)

    def confirmed(self, reply: int | list[int]) -> bool:
        """Return whether the reply to `command()` is enough."""
        if isinstance(reply, list):
            return reply[0] >= 1 and reply[1] >= self.replicas
        return reply >= self.replicas


_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})")
_BREAKER = re.compile(r"(\d+) in (.+)")
_MOST_COUNTED = 1000
_LARGEST_FIRST = {"d": 86_400, "h": 3600, "m": 60}


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a queue pauses itself: `dead` messages became dead letters `within` a span (seconds or timedelta).

    A circuit breaker (Nygard, "Release It!", 2007) that counts failures in a sliding window of time, as those of
    Resilience4j and Polly do. Theirs try again by themselves after a while. This one does not, because each try would
    cost messages: `resume` closes it. What it counts are the dead letters that the queue holds, by the times at which
    they died; those that were redriven, edited or deleted count no more, and those that expired while they waited do
    not count. dead: 1 to 1,000, because the script reads so many letters before it pauses the queue.
    """

    dead: int
    within: timedelta | float

    def __post_init__(self) -> None:
        if whole("pause_after_dead.dead", self.dead, minimum=1) > _MOST_COUNTED:
            raise ConfigurationError(f"pause_after_dead.dead must be at most {_MOST_COUNTED}, not {self.dead}")
        within = seconds("pause_after_dead.within", self.within, minimum=0.001)
        object.__setattr__(self, "within", within)  # so that 600 and timedelta(minutes=10) are equal

    def __str__(self) -> str:
        """Return the policy as `configure` takes it: `20 in 10m`."""
        number, unit = self._span
        return f"{self.dead} in {number}{unit}"

    @property
    def stored(self) -> str:
        """The policy as scripts read it, in milliseconds."""
        return f"{self.dead} {milliseconds('pause_after_dead.within', self.within)}"

    @property
    def reason(self) -> str:
        """The reason of a pause: `20 dead letters within 10 minutes`."""
        number, unit = self._span
        letters = "1 dead letter" if self.dead == 1 else f"{self.dead} dead letters"
        return f"{letters} within {number} {_UNITS[unit].removesuffix('s') if number == '1' else _UNITS[unit]}"

    @property
    def _span(self) -> tuple[str, str]:
        """The span, as a number and the largest unit in which it is a whole one; seconds if none is."""
        length = seconds("pause_after_dead.within", self.within)
        unit = next((unit for unit, size in _LARGEST_FIRST.items() if length % size == 0), "s")
        return f"{length / _LARGEST_FIRST.get(unit, 1):.15g}", unit

    @classmethod
    def of_stored(cls, text: str) -> Breaker:
        """Return the policy that `stored` gave."""
        dead, ms = text.split(" ")
        return cls(int(dead), int(ms) / 1000)


def check_breaker(value: object, max_dead: int) -> None:
    """Raise ConfigurationError unless this is a Breaker that counts no more letters than the queue keeps, or None."""
    if value is None:
        return
    if not isinstance(value, Breaker):
        raise ConfigurationError(
            "pause_after_dead must be a Breaker, such as Breaker(20, timedelta(minutes=10)), on command lines"
            f" `20 in 10m`, not {value!r}"
        )
    if value.dead > max_dead:
        raise ConfigurationError(
            f"pause_after_dead counts {value.dead} dead letters, but max_dead keeps {max_dead}: lower the one or raise"
            " the other"
        )


_MOST_WEIGHTS = 1000
_GROUP_LENGTH, _MOST_CHOSEN = 200, 100
GROUP_HEADER, PRIORITY_HEADER, PUBLICATION_HEADER = "rmq-group", "rmq-priority", "rmq-publication"
UNIQUE_HEADER = "rmq-unique"
EXPIRES_HEADER = "rmq-expires"
_EXPIRES = re.compile(r"\d{13}|\+\d{12}", re.ASCII)
_GROUPS = re.compile(r"(?:(fair|exclusive)|concurrent (\d+))(?: (\{.*\}))?")


def checked_group(name: str, parameter: str = "group") -> str:
    """Return the name of a group: 1 to 200 printable characters without `"` and backslash, for scripts read it."""
    if not isinstance(name, str) or not 0 < len(name) <= _GROUP_LENGTH or not name.isprintable():
        raise PayloadError(f"{parameter} must be a text of 1 to {_GROUP_LENGTH} printable characters, not {name!r}")
    if '"' in name or "\\" in name:
        raise PayloadError(f'{parameter} {name!r} must not hold " or a backslash')
    return name


def chosen_groups(groups: Collection[str]) -> str:
    """Return the groups that a claim names, as scripts read them; '' is the messages without a group.

    Raises ConfigurationError unless they are 1 to 100 names that groups can have.
    """
    if isinstance(groups, str | bytes) or not isinstance(groups, Collection):
        raise ConfigurationError(f"groups must be a list of names, such as ['tenant-7'], not {groups!r}")
    if not 1 <= len(groups) <= _MOST_CHOSEN:
        raise ConfigurationError(f"groups must be 1 to {_MOST_CHOSEN} names, not {len(groups)}")
    try:
        return "\0".join(dict.fromkeys(name if name == "" else checked_group(name) for name in groups))
    except PayloadError as error:
        raise ConfigurationError(f"groups: {error}") from None


def checked_priority(priority: int | str) -> str:
    """Return a priority as a header has it. Raises PayloadError unless it is 0 to 9."""
    if isinstance(priority, bool) or str(priority) not in set("0123456789"):
        raise PayloadError(f"priority must be a whole number from 0 to 9, not {priority!r}")
    return str(priority)


def checked_expiry(expires: timedelta | float | datetime | str) -> str:
    """Return when a message expires, as a header has it: ms since 1970 in 13 digits, or `+` and 12 digits.

    The latter is a duration in ms; it begins when the server stores the message, so that no clock of a client counts.
    Raises ConfigurationError for another value, PayloadError for the text of a header that is no such time.
    """
    if isinstance(expires, str):
        if not _EXPIRES.fullmatch(expires):
            raise PayloadError(f"headers['{EXPIRES_HEADER}'] must be ms since 1970 in 13 digits, not {expires!r}")
        return expires
    if not isinstance(expires, datetime):
        return f"+{min(milliseconds('expires', expires, minimum=0.001), 10**12 - 1):012d}"
    if expires.tzinfo is None:
        raise ConfigurationError(f"expires must have a time zone, as datetime.now(UTC) has, not {expires!r}")
    text = f"{max(0, int(expires.timestamp() * 1000)):013d}"
    if len(text) > 13:
        raise ConfigurationError(f"expires must be before the year 2286, not {expires!r}")
    return text


@dataclass(frozen=True, slots=True)
class Groups:
    """How the messages of a queue wait in groups, such as one for each tenant; `publish` names the group of a message.

    Groups take turns by start-time fair queueing (Goyal et al., SIGCOMM 1996). concurrent: how many leases may hold
    messages of a group at once; None for any number. weights: the shares of groups that get more, or less, than 1.
    Messages without a group take turns as one more group, which any number of leases may hold.

    Where any number of leases may hold a group, messages of a higher priority (9 is the highest, 0 the default) come
    before all of a lower one; among those of one priority, groups take turns. Where the number is limited, order within
    the group counts, and priorities do not.
    """

    concurrent: int | None = None
    weights: Mapping[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.concurrent is not None:
            whole("groups.concurrent", self.concurrent, minimum=1)
        if not isinstance(self.weights, Mapping) or len(self.weights) > _MOST_WEIGHTS:
            raise ConfigurationError(f"groups.weights must be a mapping of at most {_MOST_WEIGHTS} groups to weights")
        for name, weight in self.weights.items():
            checked_group(name)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0.01 <= weight <= 100:
                raise ConfigurationError(f"groups.weights[{name!r}] must be between 0.01 and 100, not {weight!r}")

    def __str__(self) -> str:
        """Return the policy as `configure` takes it: `fair`, `exclusive`, `concurrent 3`, and then the weights."""
        words = {None: "fair", 1: "exclusive"}.get(self.concurrent, f"concurrent {self.concurrent}")
        return f"{words} {self._weights}".rstrip()

    @property
    def stored(self) -> str:
        """The policy as scripts read it."""
        return f"{self.concurrent or 0} {self._weights}".rstrip()

    @property
    def _weights(self) -> str:
        return json.dumps(dict(self.weights), ensure_ascii=False) if self.weights else ""

    @classmethod
    def of(cls, text: str) -> Groups:
        """Return the policy of a text. Raises ConfigurationError for another text."""
        found = _GROUPS.fullmatch(text)
        if not found:
            raise ConfigurationError(f"groups must be fair, exclusive or concurrent and a number, not {text!r}")
        limit = int(found[2]) if found[2] else 1 if found[1] == "exclusive" else None
        try:
            weights = json.loads(found[3]) if found[3] else {}
        except ValueError:
            raise ConfigurationError(f'groups: write weights as JSON, as fair {{"gold": 5}}, not {found[3]}') from None
        return cls(limit, weights)


_UNIT_SIZES = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1000, "ms"))  # us
_RATE = re.compile(rf"(\d+)/(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})(?: burst (\d+))?")
_MOST_A_SECOND = 100_000


@dataclass(frozen=True, slots=True)
class Rate:
    """How many messages claims may get: `count` in each time `per` (seconds or timedelta), and not all at once.

    By the generic cell rate algorithm (ITU-T I.371), as a token bucket: it holds `burst` messages, and is full at
    first; each `per / count` one more comes. So in a time of any length, claims get at most `burst` messages, and its
    share of the rate.
    """

    count: int
    per: timedelta | float
    burst: int = 1

    def __post_init__(self) -> None:
        whole("rate.count", self.count, minimum=1)
        whole("rate.burst", self.burst, minimum=1)
        per = seconds("rate.per", self.per, minimum=0.001)
        if self.count > per * _MOST_A_SECOND or per * self.burst / self.count > _LONGEST_S:
            raise ConfigurationError(
                f"rate must be at most {_MOST_A_SECOND:,} messages a second, and its burst at most those of "
                f"{_LONGEST_S} seconds, not {self}"
            )

    def __str__(self) -> str:
        """Return the rate as `configure` takes it: `50/1m`, or `50/1m burst 10`."""
        size, unit = next((each for each in _UNIT_SIZES if self._per_us % each[0] == 0), _UNIT_SIZES[-1])
        return f"{self.count}/{self._per_us / size:.15g}{unit}{f' burst {self.burst}' if self.burst > 1 else ''}"

    @property
    def _per_us(self) -> int:
        return round(seconds("rate.per", self.per) * 1_000_000)

    @property
    def stored(self) -> str:
        """The rate as scripts read it: the time for one message, in us, rounded up; and the burst."""
        return f"{-(-self._per_us // self.count)}*{self.burst}"

    @classmethod
    def of(cls, text: str) -> Rate:
        """Return the rate of a text. Raises ConfigurationError for another text."""
        found = _RATE.fullmatch(text)
        if not found:
            raise ConfigurationError(f"rate must be as 50/1m, or 50/1m burst 10, not {text!r}")
        return cls(int(found[1]), timedelta(**{_UNITS[found[3]]: float(found[2])}), int(found[4] or 1))


def check_groups(value: object) -> None:
    """Raise ConfigurationError unless this is a policy or None; for a text, the error of `Groups.of` if it has one."""
    if value is not None and not isinstance(value, Groups):
        Groups.of(str(value))
        raise ConfigurationError(f"groups must be Groups(...), not {value!r}")


def check_rate(parameter: str, value: object, groups: object) -> None:
    """Raise ConfigurationError unless this is None, or the rate of a queue that has a policy of groups."""
    if value is None:
        return
    if not isinstance(value, Rate):
        try:
            Rate.of(str(value))
        except ConfigurationError as error:
            raise ConfigurationError(f"{parameter}: {error}") from None
        raise ConfigurationError(f"{parameter} must be Rate(...), not {value!r}")
    if groups is None:
        raise ConfigurationError(
            f"{parameter} needs a policy of groups: configure(groups='fair', {parameter}='{value}'); reset both "
            "together"
        )


def policy_text(groups: Groups, rate: Rate | None, group_rate: Rate | None) -> str:
    """Return a policy with its rates as scripts read it, from the key `ready`."""
    limit, _, weights = groups.stored.partition(" ")
    rates = (f"{name}={each.stored}" for name, each in (("rate", rate), ("group_rate", group_rate)) if each)
    return " ".join(filter(None, (limit, *rates, weights)))


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a queue: where its messages are stored, and which publishers may store some.

    epoch: raised by each change; a shard refuses messages from publishers that know an older one. names: those of the
    shards that get messages; "0" has the keys of the queue itself. draining: those that only have their messages
    claimed. former: the names that decided before where a message with a deduplication key is stored, and the time of
    the server, in ms, until which such messages are remembered. settled: whether all shards know this epoch.
    leaving: the queue is being forgotten; whoever publishes to it makes another map first.
    """

    epoch: int
    names: tuple[str, ...]
    draining: tuple[str, ...] = ()
    former: tuple[tuple[int, tuple[str, ...]], ...] = ()
    settled: bool = True
    leaving: bool = False

    def __str__(self) -> str:
        """Return the shards as the settings of the queue have them."""
        former = ";".join(f"{until}:{','.join(names)}" for until, names in self.former)
        word = "live" if self.settled else "leaving" if self.leaving else "changing"
        return f"shards {self.epoch} {word} {','.join(self.names)} {','.join(self.draining) or '-'} {former or '-'}"

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.names, *self.draining)

    @classmethod
    def of(cls, text: str) -> Shards:
        """Return the shards of a text. Raises ValueError for another text."""
        _, epoch, word, names, draining, former = text.split(" ")
        before = (each.partition(":") for each in former.split(";") if each != "-")
        return cls(
            int(epoch),
            tuple(names.split(",")),
            tuple(draining.split(",")) if draining != "-" else (),
            tuple((int(until), tuple(each.split(","))) for until, _, each in before),
            settled=word == "live",
            leaving=word == "leaving",
        )


_SHIFTS = {"KiB": 10, "MiB": 20}
_SIZE = re.compile(rf"(\d+) ?({'|'.join(_SHIFTS)})")
STORED: Mapping[str, bool] = {"stored": True}
"""The metadata of a config's field that `configure` can store with a queue, for all of its clients."""
LAYS_OUT: Mapping[str, bool] = {"stored": True, "lays_out": True}
"""The same for one that says where the messages are, so that settings of a program that do not go with it give way."""


def as_text(value: Any) -> Any:
    """Return the value of a setting as JSON and command lines have it: None, a number, true, false or a text.

    Texts are `90s`, `raise`, `drop_oldest`, `block 5`, `exponential 1 300 0.5`, `20 in 10m`, `50/1m`, `50/1m burst 10`,
    `fair`, `exclusive` and `concurrent 3`, the last three also with weights, `fair {"gold": 5}`; other values, such as
    a Backoff of a program's own, are represented.
    """
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.15g}s"
    if isinstance(value, Overflow):
        return f"block {value.timeout:.15g}" if value.kind == "block" else value.kind
    if isinstance(value, Breaker | Groups | Rate | Shards):
        return str(value)
    if isinstance(value, Exponential):
        return f"exponential {value.base:.15g} {value.cap:.15g} {value.jitter:.15g}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value)


def of_text(value: Any) -> Any:
    """Return what a text of `as_text` stands for; any other value is returned as it is, for the config to check.

    Durations may have the units ms, s, m, h and d, sizes KiB and MiB, which are numbers of bytes; `none` is None.
    """
    if not isinstance(value, str):
        return value
    if value in {"raise", "drop_oldest", "none"}:
        return None if value == "none" else Overflow(value)
    word, *rest = value.split(" ")
    try:
        if found := _DURATION.fullmatch(value):
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
        if found := _SIZE.fullmatch(value):
            return int(found[1]) << _SHIFTS[found[2]]
        if found := _BREAKER.fullmatch(value):
            return Breaker(int(found[1]), of_text(found[2]))
        if word in {"fair", "exclusive", "concurrent"}:
            return Groups.of(value)
        if _RATE.fullmatch(value):
            return Rate.of(value)
        if word == "shards":
            return Shards.of(value)
        known: dict[str, Callable[..., Any]] = {"block": Overflow.BLOCK, "exponential": exponential}
        return known[word](*map(float, rest))
    except (KeyError, OverflowError, TypeError, ValueError):
        return value


def as_given(value: Any) -> Any:
    """Return a setting as `configure` takes it: as text, and shards as their number."""
    return len(value.names) if isinstance(value, Shards) else as_text(value)


def shown(name: str, value: Any) -> str:
    """Return a setting as command lines have it."""
    text = as_given(value)
    return f"{name}={text if isinstance(text, str) else json.dumps(text)}"
