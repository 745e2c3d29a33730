"""Turns a request into the bytes of one write and its replies into the answer; shared by both drivers. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import hiredis
from redis import exceptions as errors

from rmq_core.errors import translate
from rmq_core.exchange import Batch, Call, Chain, Wait
from rmq_core.exchange.slots import Slot, Slots

RETRYABLE = (
    errors.ConnectionError,
    errors.TimeoutError,
    errors.ReadOnlyError,
    errors.TryAgainError,
    errors.ClusterDownError,
    errors.MasterDownError,
    errors.AskError,
    errors.MovedError,
    errors.RedisClusterException,  # no RedisError: what a cluster client says when it finds no node
    OSError,
)
FAILURES = (errors.RedisError, errors.RedisClusterException, OSError)
NOT_RETRYABLE = (errors.AuthenticationError, errors.AuthorizationError)


class Frame(NamedTuple):
    """One command of a write: the script call it stands for, if any, and its call slot."""

    args: tuple[Any, ...]
    call: Call | None = None
    slot: Slot | None = None


class Plan(NamedTuple):
    """The commands of one write. `block_ms` is how long the first of them may block."""

    frames: list[Frame]
    block_ms: int = 0

    def packed(self, *, whole_scripts: bool = False) -> bytes:
        """The bytes to send; with `whole_scripts`, EVAL instead of EVALSHA."""
        if whole_scripts:
            return b"".join(
                hiredis.pack_command(("EVAL", frame.call.script.source, *frame.args[2:]) if frame.call else frame.args)
                for frame in self.frames
            )
        return b"".join([hiredis.pack_command(frame.args) for frame in self.frames])

    def again(self) -> Plan:
        """The plan for a resend: what was waited for must not be waited for once more."""
        return Plan(self.frames[1:]) if self.block_ms else self

    def release(self, slots: Slots) -> None:
        for frame in self.frames:
            if frame.slot is not None:
                slots.give(frame.slot)


def plan(want: Call | Wait | Chain | Batch, slots: Slots) -> Plan:
    """The plan of a request, its call slots taken."""
    if isinstance(want, Call):
        return Plan(_frames(want, slots))
    if isinstance(want, Wait):
        pop = Frame(("BLPOP", want.wake, f"{want.block_ms / 1000:.3f}"))
        return Plan([pop, *_frames(want.call, slots)], want.block_ms)
    frames: list[Frame] = []
    for call in want.calls:
        before = frames[-1].slot if frames and isinstance(want, Chain) else None
        frames.append(frame(call, slots, before))
    return Plan(frames)


def frame(call: Call, slots: Slots, before: Slot | None = None) -> Frame:
    """A script call; chained calls name the slot and the number of the one before as their last key and argument."""
    if not call.slot:
        return Frame(("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args), call)
    slot = slots.take()
    keys, args = call.keys, call.args
    if before is not None:
        keys, args = (*keys, before.key), (*args, before.seq)
    return Frame(
        ("EVALSHA", call.script.sha, len(keys) + 1, slot.key, *keys, slot.seq, slots.ttl_ms, *args), call, slot
    )


def _frames(call: Call, slots: Slots) -> list[Frame]:
    frames = [frame(call, slots)]
    if call.confirm is not None:
        frames.append(Frame(call.confirm))
    return frames


def raise_retryable(replies: Sequence[Any]) -> None:
    """Raise the first reply that says the server cannot answer now (fail-over, resharding, loading)."""
    for reply in replies:
        if isinstance(reply, errors.RedisError):
            if isinstance(reply, RETRYABLE) and not isinstance(reply, NOT_RETRYABLE):
                raise reply
            text = str(reply)
            # Redis 6.2 wraps what a script met on a replica: "Error running script ...: -READONLY ..."
            if text.startswith(("UNBLOCKED", "LOADING", "MASTERDOWN", "FAILOVER")) or ": -READONLY " in text:
                raise errors.ConnectionError(text)


def answer(want: Call | Wait | Chain | Batch, planned: Plan, replies: Sequence[Any]) -> Any:
    """What the operation gets: the call's reply, with that of its confirmation; of many calls a list, errors in it."""
    if isinstance(want, Chain | Batch):
        return [translate(reply) if isinstance(reply, errors.RedisError) else reply for reply in replies]
    last = replies[-1]
    if planned.frames[-1].call is None:
        _raise(replies[-2])
        return replies[-2], last
    _raise(last)
    return last


def _raise(reply: Any) -> None:
    if isinstance(reply, errors.RedisError):
        raise reply
