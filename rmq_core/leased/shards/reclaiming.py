"""Ends leases in parts that nobody holds any more, and asks the home about parts whose deadline has passed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rmq_core.envelope.codec import nonce
from rmq_core.errors import LeaseLost, QueueUnavailable
from rmq_core.exchange import At, Command, Exchange, Pipeline, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settling import Reclaimed
from rmq_core.leased import reclaiming, settling
from rmq_core.leased.claiming import adoption, deadline_of
from rmq_core.leased.shards.state import DECIDED, HOME, PART, checked, generation, part_id, part_ms, sharded
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease

_MOMENT_MS = 30_000
_LATER_MS = 10_000


def is_home(lease_id: str) -> bool:
    """Return whether a lease of the first shard may have parts."""
    return not lease_id.startswith("~") or lease_id.endswith(HOME)


def reclaim(engine: LeasedEngine, lease_id: str) -> Exchange[int]:
    """Reclaim a lease that has expired in a shard; return the number of messages moved."""
    if lease_id.startswith(DECIDED):
        yield from finish_parts(engine, lease_id.removeprefix(DECIDED))
        return 0
    if lease_id.startswith(PART):
        return (yield from _ask_home(engine, lease_id))
    if engine.home is None and is_home(lease_id):
        try:
            done = yield from reclaim_home(engine, lease_id, "3")
            sharded(engine).taken_back += done.settled > 0
            return done.settled
        except QueueUnavailable:  # of the shard of a part; whoever claims in a moment tries again
            return 0
    return (yield from reclaiming.reclaim(engine, lease_id))


def reclaim_home(
    engine: LeasedEngine, lease_id: str, required: str, owner: str = "", reason: str = ""
) -> Exchange[Reclaimed]:
    """Take back all messages of a lease in parts: those of the parts first, so that the home knows of them until then.

    required: as for adopt.lua; '3' that it has expired.
    """
    shards = sharded(engine)
    taken = yield from seized(engine, lease_id, required, owner)
    if not isinstance(taken, Lease):
        return Reclaimed(owner=taken)
    fence = str(taken.token).partition(".")[0]
    take_back = partial(_take_back, lease_id=part_id(lease_id), reason=reason, generation=fence)
    found = yield from shards.all(lambda _, one: take_back(one))
    done = list(found.values())
    done.append((yield from reclaiming.reclaim_lease(engine, lease_id, "2", reason, token=str(taken.token))))
    return Reclaimed(sum(each.settled for each in done), sum(each.dead for each in done), found=True)


def _take_back(engine: LeasedEngine, lease_id: str, reason: str, generation: str) -> Exchange[Reclaimed]:
    return reclaiming.reclaim_lease(engine, lease_id, "2", reason, only_of="", generation=generation)


def seized(engine: LeasedEngine, lease_id: str, required: str, owner: str = "") -> Exchange[Lease | str | None]:
    """Fence off the holder of a lease for a moment, in which the caller ends it; return the home, its owner or None."""
    reply = yield adoption(
        engine, lease_id, nonce=nonce(), lease_ms=_MOMENT_MS, set_owner="0", owner="", required=required,
        required_owner=owner,
    )  # fmt: skip
    verdict, _, rest = text_of(reply).partition(" ")
    if verdict == "owned":
        return rest
    if verdict != "taken":
        return None
    token, deadline, count, *_ = rest.split(" ")
    return Lease(engine.name, lease_id, rest.split(" ", 7)[7], int(count), deadline_of(deadline), token)


def _ask_home(engine: LeasedEngine, name: str) -> Exchange[int]:
    """Do with a part whose deadline has passed what follows from its home."""
    head = yield Command(("LINDEX", engine.keys.lease(name), 0))
    if head is None:
        return (yield from reclaiming.reclaim(engine, name))
    token, lease_id, home = text_of(head).split(" ")[0], name.removeprefix(PART), engine.home or engine
    asked = Pipeline((Command(("LINDEX", home.keys.lease(lease_id), 0)), Command(("GET", home.keys.parts(lease_id)))))
    part = Lease(engine.name, name, "", 0, None, token)
    try:
        lives, decided = yield At(home.prefix, asked)
    except QueueUnavailable:  # of the first shard; this one goes on
        yield settling.extension(engine, part, _LATER_MS / 1000)
        return 0
    for each in (lives, decided):
        if isinstance(each, Exception):
            raise each
    if lives is not None:
        mine, present = token.partition(".")[2], generation(text_of(lives).split(" ")[0])
        if mine == present or int(mine.partition("-")[0]) < int(present.partition("-")[0]):
            yield settling.extension(
                engine, part, part_ms(engine.lease_ms(None)) / 1000
            )  # whoever has the home ends the part, too
            return 0
    if decided is not None and f"{engine.keys.shard}={token}" in text_of(decided).split(" "):
        yield settling.acking(engine, part, 0, engine.config.completed_log)
        return 0
    try:
        return (yield from settling.give_back(engine, part, "release")).settled
    except LeaseLost:
        return 0


def listing(parts: Mapping[str, str]) -> str:
    """Return the record of an acked lease: the tokens of its parts by shard."""
    return " ".join(f"{name}={token}" for name, token in parts.items())


def finish_parts(
    engine: LeasedEngine, lease_id: str, parts: dict[str, str] | None = None, *, required: bool = False
) -> Exchange[dict[str, int]]:
    """Ack the parts that are left of a lease whose ack is decided; return how many messages that were, by shard.

    parts: their tokens by shard; None to read the record. required: raise the error of a shard that does not answer.
    """
    keys, shards, member = engine.keys, sharded(engine), f"{DECIDED}{lease_id}"
    if parts is None:
        listed = text_of((yield Command(("GET", keys.parts(lease_id)))) or "")
        parts = dict(each.split("=") for each in listed.split())
        if not parts.keys() <= shards.engines.keys():  # this client knows an older map than the holder did
            shards.base.take((yield Command(shards.base.look)))
    else:
        listed = listing(parts)

    def one(name: str, shard: LeasedEngine) -> Exchange[int]:
        part = Lease(shard.name, part_id(lease_id), "", 0, None, parts[name])
        reply = yield settling.acking(shard, part, 0, shard.config.completed_log)
        return int(reply[6:]) if reply.startswith(b"acked ") else 0  # one that is gone was acked before

    found = yield from shards.across((name for name in parts if name in shards.engines), one)
    if any(isinstance(each, Exception) for each in found.values()):
        yield Command(("ZINCRBY", keys.leases, _LATER_MS, member))
        if required:
            checked(found)
    else:
        yield script("leased/finished", keys, parts=keys.parts(lease_id), listed=listed, member=member)
    return {name: each for name, each in found.items() if isinstance(each, int)}
