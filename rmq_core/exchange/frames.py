"""Turns a request into the bytes of one write and its replies into the answer; shared by both drivers. No IO."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple

import hiredis
from redis import ConnectionPool
from redis import exceptions as errors
from redis.cluster import NodesManager

from rmq_core.errors import FULL_POOL, translate
from rmq_core.exchange import Appended, Beside, Call, Chain, Command, Listen, Packed, Pipeline, Wait, blocks_for
from rmq_core.exchange.scripts import Slot, Slots

RETRYABLE = (
    errors.ConnectionError,
    errors.TimeoutError,
    errors.ReadOnlyError,
    errors.TryAgainError,
    errors.ClusterDownError,
    errors.MasterDownError,
    errors.AskError,
    errors.MovedError,
    errors.RedisClusterException,  # not a RedisError; a cluster client raises it when it finds no node
    OSError,
)
FAILURES = (errors.RedisError, errors.RedisClusterException, OSError)
MOVING = (errors.AskError, errors.MovedError, errors.TryAgainError)
"""Refusals while a slot moves to another node, or after that. The node that refuses answers, and at once."""
# Before redis-py 5.3, a pool requires the name of the command; later versions warn when they get one.
POOL_ARGS = (
    ("_",) if signature(ConnectionPool.get_connection).parameters["command_name"].default is Parameter.empty else ()
)
_LAST = "last_failed_node_name"
_ASKS_LAST = _LAST in signature(NodesManager.initialize).parameters  # not before redis-py 8
_ON_REPLICA = re.compile(": -?READONLY ")
NOT_RETRYABLE = (errors.AuthenticationError, errors.AuthorizationError)


class Frame(NamedTuple):
    """One command of a write, with the script call that it sends, if any, and the slot of that call.

    A call that appends messages is sent as several commands, see `transaction`.
    """

    args: tuple[Any, ...]
    call: Call | None = None
    slot: Slot | None = None

    @property
    def whole(self) -> tuple[Any, ...]:
        """The command with the source of its script instead of its SHA1."""
        return ("EVAL", self.call.script.source, *self.args[2:]) if self.call else self.args


class Plan(NamedTuple):
    """The commands of one write. The first may block for `block_ms`; the wait ends early if `given_up` is true.

    sizes: how many commands each frame is sent as; None if it is one for each. beside: what is read in the same write.
    """

    frames: list[Frame]
    block_ms: int = 0
    given_up: Callable[[], bool] | None = None
    sizes: list[int] | None = None
    beside: Beside | None = None

    def packed(self, *, whole_scripts: bool = False) -> bytes:
        """Return the bytes to send; with `whole_scripts`, EVAL instead of EVALSHA."""
        if self.beside:
            beside: bytes = hiredis.pack_command(self.looking)
            return self._replace(beside=None).packed(whole_scripts=whole_scripts) + beside
        if self.sizes:
            sent = (
                transaction(each, each.call.appended) if each.call and each.call.appended else [each.whole]
                for each in self.frames
            )
            return b"".join(itertools.chain.from_iterable(map(_packed, itertools.chain.from_iterable(sent))))
        if whole_scripts:
            return b"".join(hiredis.pack_command(frame.whole) for frame in self.frames)
        return b"".join([hiredis.pack_command(frame.args) for frame in self.frames])

    @property
    def looking(self) -> tuple[Any, ...]:
        """The command that is sent beside the others."""
        return self.beside.along(self.name)  # type: ignore[union-attr]

    @property
    def name(self) -> str:
        """The name of the last script or command."""
        last = self.frames[-1]
        return last.call.script.name if last.call else last.args[0]

    @property
    def expected(self) -> int:
        """How many replies arrive."""
        return (sum(self.sizes) if self.sizes else len(self.frames)) + (self.beside is not None)

    def outcomes(self, replies: list[Any]) -> list[Any]:
        """Return one reply for each frame. Replies that are to be retried must have been raised before."""
        if self.beside:
            self.beside.take(replies.pop())
        if not self.sizes:
            return replies
        rest = iter(replies)
        own = (list(itertools.islice(rest, size)) for size in self.sizes)
        return [
            _outcome(frame, some) if len(some) > 1 else some[0] for frame, some in zip(self.frames, own, strict=True)
        ]

    def again(self) -> Plan:
        """Return the plan for a resend: without the blocking command, unless that is the only one."""
        return Plan(self.frames[1:], beside=self.beside) if self.block_ms and not self.alone else self

    @property
    def alone(self) -> bool:
        """Whether the blocking command is the request itself, and not a wait before a call."""
        return len(self.frames) == 1

    def release(self, slots: Slots) -> None:
        for frame in self.frames:
            if frame.slot is not None:
                slots.give(frame.slot)


def transaction(frame: Frame, appended: Appended) -> list[tuple[Any, ...]]:
    """Return the commands of a call that appends messages.

    The script is sent whole: if the server did not know it, the messages would be appended without it. The slot is read
    because Redis may refuse a resend, at `maxmemory` for example, although the first request was executed.
    """
    (key, messages), slot = appended, frame.slot
    return [
        ("MULTI",),
        *([("RPUSH", key, *([messages] if isinstance(messages, Packed) else messages))] if messages else []),
        frame.whole,
        ("EXEC",),
        *([("GET", slot.key)] if slot else []),
    ]


def _outcome(frame: Frame, replies: list[Any]) -> Any:
    """Return the reply of the script of a transaction; the error that kept it from running if there is none."""
    stored = replies.pop() if frame.slot else None
    if isinstance(replies[-1], list):
        return replies[-1][-1]
    if frame.slot and isinstance(stored, bytes) and stored.startswith(b"%d " % frame.slot.seq):
        return stored.partition(b" ")[2]
    return next(reply for reply in replies if isinstance(reply, Exception))


def _packed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(args[-1], Packed):
        return (hiredis.pack_command(args),)
    more, head = args[-1], hiredis.pack_command(args[:-1])
    return b"*%d" % (len(args) - 1 + more.count), head[head.index(b"\r\n") :], more.data


def plan(want: Call | Wait | Listen | Chain | Pipeline, slots: Slots) -> Plan:
    """Return the plan of a request and take call slots for it."""
    if isinstance(want, Call):
        own = _frames(want, slots)
        return Plan(own, sizes=_sizes(own) if want.appended else None)
    if isinstance(want, Wait):
        return Plan([_blocking(want), *_frames(want.call, slots)], want.block_ms)
    if isinstance(want, Listen):
        return Plan([Frame(want.args)], want.block_ms)
    frames: list[Frame] = []
    for call in want.calls:
        if isinstance(call, Command):
            frames.append(Frame(call.args))
            continue
        before = frames[-1].slot if frames and isinstance(want, Chain) else None
        frames.append(frame(call, slots, before))
    return Plan(frames, sizes=_sizes(frames))


def _sizes(frames: Sequence[Frame]) -> list[int] | None:
    """Return how many commands each frame is sent as; None if it is one for each."""
    appended = [frame.call and frame.call.appended for frame in frames]
    if not any(appended):
        return None
    return [
        3 + bool(each.messages) + bool(frame.slot) if each else 1 for frame, each in zip(frames, appended, strict=True)
    ]


def frame(call: Call, slots: Slots, before: Slot | None = None) -> Frame:
    """Return the frame of a script call. In a chain, `before` is the previous call's slot.

    The slot's key and its sequence number then become the last key and the last argument.
    """
    if not call.slot:
        return Frame(("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args), call)
    slot = slots.take()
    keys, args = call.keys, call.args
    if before is not None:
        keys, args = (*keys, before.key), (*args, before.seq)
    return Frame(
        ("EVALSHA", call.script.sha, len(keys) + 1, slot.key, *keys, slot.seq, slots.ttl_ms, *args), call, slot
    )


def at_once(blocking: Frame) -> Frame:
    """Return the non-blocking form of a blocking command, for clients that cannot block."""
    verb, wake, *rest = blocking.args
    if "BLOCK" in rest:
        at = rest.index("BLOCK")
        return Frame((verb, wake, *rest[:at], *rest[at + 2 :]))
    return Frame(("LPOP", wake) if verb == "BLPOP" else ("LMOVE", wake, *rest[:-1]))


def _blocking(want: Wait) -> Frame:
    if want.by is not None:
        return Frame(want.by)
    timeout = blocks_for(want.block_ms)
    if want.into is None:
        return Frame(("BLPOP", want.wake, timeout))
    return Frame(("BLMOVE", want.wake, want.into, "RIGHT", "LEFT", timeout))


def _frames(call: Call, slots: Slots) -> list[Frame]:
    frames = [frame(call, slots)]
    if call.then is not None:
        frames.append(Frame(call.then))
    return frames


def unknown_script(replies: Sequence[Any]) -> bool:
    """Return whether a reply says that the server does not know a script yet."""
    for reply in replies:  # noqa: SIM110  creating a generator takes longer than this loop
        if isinstance(reply, errors.NoScriptError):
            return True
    return False


def raise_retryable(replies: Sequence[Any]) -> None:
    """Raise the first reply that says the server cannot answer now (fail-over, resharding, loading)."""
    for reply in replies:
        if isinstance(reply, errors.RedisError):
            if isinstance(reply, RETRYABLE) and not isinstance(reply, NOT_RETRYABLE):
                raise reply
            text = str(reply)
            # Redis 6.2 wraps the error of a script that writes on a replica: "Error running script ...: -READONLY ...",
            # and EXEC that of a transaction: "EXECABORT Transaction discarded because of: READONLY ..."
            if text.startswith(("UNBLOCKED", "LOADING", "MASTERDOWN", "FAILOVER")) or _ON_REPLICA.search(text):
                raise errors.ConnectionError(text)


def asked_elsewhere(planned: Plan, replies: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    """Return the commands of a write that were refused with ASK, by the place of their reply, to send them elsewhere.

    Raises the first refusal that means to send the whole write again. A script that changes data waits for the end of
    the move: until then, a node refuses it a command that names several keys, one of which it has deleted, and so would
    stop it in the middle.
    """
    raise_retryable([reply for reply in replies if not _is_ask(reply)])
    found: dict[int, tuple[Any, ...]] = {}
    for at, reply in enumerate(replies):
        if _is_ask(reply):
            frame = planned.frames[at] if at < len(planned.frames) else None
            if planned.sizes or planned.block_ms or (frame and frame.slot):
                raise reply
            found[at] = frame.whole if frame else planned.looking
    return found


def _is_ask(reply: Any) -> bool:
    return isinstance(reply, errors.AskError) and not isinstance(reply, errors.MovedError)  # which redis-py derives


def asking(commands: Iterable[tuple[Any, ...]]) -> bytes:
    """Return the bytes that make a node execute commands on a slot that it is about to get; each has two replies."""
    return b"".join(hiredis.pack_command(each) for command in commands for each in (("ASKING",), command))


def raised(reply: Any) -> Any:
    """Return the reply to a plain command; raise it if it is an error."""
    raise_retryable([reply])
    if isinstance(reply, FAILURES):
        raise reply
    return reply


def answer(want: Call | Wait | Listen | Chain | Pipeline, planned: Plan, replies: Sequence[Any]) -> Any:
    """Return the answer for the operation: the call's reply, paired with that of the command behind it if there is one.

    For a chain or a batch it is the list of replies; it contains errors instead of raising them.
    """
    if isinstance(want, Chain | Pipeline):
        return [_value_of(reply) for reply in replies]
    last = replies[-1]
    if isinstance(want, Wait) and want.into is not None:
        _raise(last)
        return _value_of(replies[0]) if len(replies) > 1 else None, last
    if planned.frames[-1].call is None and not planned.alone:
        _raise(replies[-2])
        return replies[-2], last
    _raise(last)
    return last


def is_full(error: BaseException) -> bool:
    """Return whether a connection pool has no free connection. Nothing was sent, and no connection is broken."""
    return isinstance(error, errors.MaxConnectionsError) or str(error) in FULL_POOL


def is_healthy(error: BaseException) -> bool:
    """Return whether an error says nothing against the connections and the nodes that a driver knows."""
    return is_full(error) or _is_ask(error) or isinstance(error, errors.TryAgainError)


def asked_last(node: Any) -> dict[str, Any]:
    """Return the arguments with which a cluster is read again: a node that is silent would cost another timeout."""
    return {_LAST: node.name} if _ASKS_LAST and node else {}


def still_full(most: int) -> errors.MaxConnectionsError:
    """Return the error for a pool that stays full; it states the limit, which redis-py's does not."""
    return errors.MaxConnectionsError(f"max_connections={most}")


def _value_of(reply: Any) -> Any:
    return translate(reply) if isinstance(reply, errors.RedisError) else reply


def _raise(reply: Any) -> None:
    if isinstance(reply, errors.RedisError):
        raise reply
