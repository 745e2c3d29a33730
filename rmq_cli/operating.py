"""The commands of the verbs, each made from its record; and `rmq reap`."""

from __future__ import annotations

import time
from contextlib import closing
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from rmq_cli.opening import At, Queue, Yes, argument, command, option, presented
from rmq_cli.output import Exit, ago, complain, confirm, counted, emit, say
from rmq_core.admin.verbs import Argument, Verb
from rmq_core.errors import ConfigurationError, QueueFull, QueueUnavailable
from rmq_core.interrupt_handler import Stopping
from rmq_core.reports import LeaseInfo

_Lease = Annotated[str, argument(help="Id of the lease, as `rmq leases` shows it.", metavar="LEASE")]
_Ids = Annotated[list[str], argument(help="Ids of messages.", metavar="ID...")]
_Owner = Annotated[
    str | None, option("--owner", help="Only if this is still its owner: a retry may have taken it over.")
]
_TAKEN = {"queue": set[str](), "lease": {"lease", "owner"}, "owner": set[str](), "message": {"ids"}}


def add_to(app: typer.Typer, verb: Verb) -> None:
    """Add the command of a verb."""
    taken = {"queue", "at"} | _TAKEN[verb.needs]
    taken |= {"yes"} if verb.warns else set()
    known = signature(_change, eval_str=True).parameters.items()
    shown = [each.replace(kind=Parameter.KEYWORD_ONLY) for name, each in known if name in taken]
    at = 2 if verb.needs == "lease" else 1  # before the IDs, of which there may be several
    shown[at:at] = map(_parameter, verb.takes)

    def run(**given: Any) -> None:
        more = {each.name: value for each in verb.takes if (value := given.pop(each.name)) is not None}
        _change(verb, **{"lease": "", "ids": [], **given}, more=more)

    app.command(verb.word, help=_help(verb))(command(presented(run, shown)))


def _parameter(taken: Argument) -> Parameter:
    name, kind, least = taken.name, taken.kind, taken.least
    text = taken.help + (" For one ID." if taken.single else "")
    if kind is list:
        shown = argument(help=text, metavar=taken.metavar)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[list[str] | None, shown])
    if taken.required:
        shown = argument(help=text, min=least, metavar=taken.metavar or name.upper())
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=Annotated[kind, shown])
    shown = option(taken.spelled, help=text, min=least, metavar=taken.metavar or None)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, shown])


def _help(verb: Verb) -> str:
    does, _, more = verb.explains.format(queue="a queue", holder="Its holder").partition(". ")
    fails = f"The exit code is 1 if one of them is {verb.otherwise}." if verb.needs == "message" else ""
    return "\n\n".join(filter(None, (does.rstrip(".") + ".", " ".join(filter(None, (more, fails))))))


def _change(
    verb: Verb,
    queue: Queue,
    lease: _Lease,
    ids: _Ids,
    *,
    more: dict[str, Any],
    owner: _Owner = None,
    yes: Yes = False,
    at: At,
) -> None:
    if len(ids) > 1 and (single := [each.spelled for each in verb.takes if each.single and each.name in more]):
        raise ConfigurationError(f"{single[0]} is about one message: name one ID")
    missing: list[str] = []
    with at.queue(queue) as opened:
        change = getattr(opened.admin, verb.name)
        if verb.warns and not yes and (it := _named(verb, opened, lease, ids, more)):
            confirm(verb.asks.format(it=f"{it} ({opened.discipline}) on {at.settings}"))
        if verb.needs == "lease":
            found = change(lease, if_owner=owner, **more)
        elif verb.needs == "message":
            missing = [each for each in ids if not change(each, **more)]
            found = len(ids) - len(missing)
        else:
            found = change(**more)
    answer = verb.answer(found)
    if at.as_json:
        about = {"lease": lease} if verb.needs == "lease" else {}
        about |= {each.name: more[each.name] for each in verb.takes if each.required}
        emit({"queue": queue, **about, **answer, **({"missing": missing} if verb.needs == "message" else {})})
    else:
        many, dead = next(iter(answer.values())), answer.get("dead")
        addition = f", of which {dead:,} became dead letters" if dead else ""
        if draining := answer.get("draining"):
            names = ", ".join(draining)
            addition = f"; {counted(len(draining), 'shard')} more until claims have emptied them: {names}"
        words = {"messages": counted(many, "message")} if isinstance(many, int) else answer
        say(verb.done.format(**{"queue": queue, **more, **words}) + addition)
    if missing:
        complain(f"{verb.otherwise}: {', '.join(missing)}")
        raise typer.Exit(Exit.FAILED)


def _named(verb: Verb, queue: Any, lease_id: str, ids: list[str], more: dict[str, Any]) -> str | None:
    """Say what a verb changes: a queue, how many messages, an owner with the first of its leases, or a lease.

    Returns None if the lease has ended.
    """
    if verb.needs == "owner":
        held = [each for each in queue.admin.leases(1000) if each.owner == more["owner"]]
        unsettled = counted(sum(each.count - each.settled for each in held), "message")
        return f"{more['owner']!r}, which holds {unsettled} in {counted(len(held), 'lease')} of {queue.name}"
    if verb.needs != "lease":
        return f"{counted(len(ids), 'message')} of {queue.name}" if ids else str(queue.name)
    lease: LeaseInfo | None = queue.lease_info(lease_id)
    if lease is None:
        return None
    now = time.time()
    since = ago(now - lease.claimed_at.timestamp())
    left = None if lease.deadline is None else lease.deadline.timestamp() - now
    ends = "which never ends" if left is None else f"which ends in {ago(max(0, left))}"
    unsettled, owner = counted(lease.count - lease.settled, "message"), lease.owner or "somebody"
    return f"the lease {lease.id!r}, {ends}; {owner} holds {unsettled} since {since}; of {queue.name}"


_Every = Annotated[float | None, option("--every", min=0.1, help="Repeat, with this many seconds between two rounds.")]


def reap(queue: Queue, *, every: _Every = None, at: At) -> None:
    """Requeue messages that dead or stuck workers have held for too long.

    Only `reliable` queues need it: in the other disciplines, each claim also reclaims expired messages.
    """
    with at.queue(queue) as opened, closing(Stopping()) as stopping:
        if every is None:
            _round(opened, as_json=at.as_json)
            return
        while not stopping.is_set():
            try:
                _round(opened, as_json=at.as_json)
            except (QueueUnavailable, QueueFull) as error:  # the next round may succeed
                complain(str(error))
            stopping.rest(every)


def _round(queue: Any, *, as_json: bool) -> None:
    found = {}
    if queue.capabilities.auto_reclaim:
        queue.backlog()  # it also reclaims expired messages, if the discipline can do so without a claim
    else:
        found = queue.reap()._asdict()
    if as_json:
        emit({"queue": queue.name, "discipline": queue.discipline, **found})
    elif found:
        summary = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in found.items())
        say(f"{queue.name} ({queue.discipline}): {summary}")
    else:
        say(f"{queue.name} ({queue.discipline}) needs no reaper: claims reclaim expired messages")
