"""Moves what waits in a queue into another one of its server: exports it, imports it, deletes exactly what was read."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import Any, NamedTuple

from rmq_core.envelope.codec import split
from rmq_core.envelope.export_record import STATES
from rmq_core.envelope.matching import Match
from rmq_core.envelope.payloads import ANY_SIZE
from rmq_core.errors import ConfigurationError, Unsupported
from rmq_core.protocol import DEFAULT
from rmq_core.transfer.exporting import Export, ExportFile
from rmq_core.transfer.importing import Import, message_of_line


class MoveReport(NamedTuple):
    """The result of a move. moved: how many messages are in the other queue now.

    missing: those of them that were not found where they were read: both queues may have them. held: how many stay,
    because consumers hold them.
    """

    moved: int
    missing: int
    held: int


def move(source: Any, target: Any, version: str, most: int) -> MoveReport:
    """Move all messages but those that consumers hold into another queue; the source has to be paused.

    A target of the same discipline that is empty and stores no settings gets those of the source, but for its shards.
    The ways of `rmq export`, `rmq import` and `rmq purge --exported`, with a file that is deleted at the end. If it
    fails before it deletes, nothing is lost: a repetition goes on. most: how many messages may be moved at once.
    Raises Unsupported for a source that is not `leased`, and for a target that takes no imports; ConfigurationError.
    """
    if source.discipline != DEFAULT:
        raise Unsupported(source.discipline, "move of its messages", (DEFAULT,))
    if source.name == target.name:
        raise ConfigurationError(f"target must be another queue than {source.name!r}")
    into = Import(target, f"move {source.name}")
    with TemporaryFile() as file:
        made = Export(source, version)
        if (many := made.before.ready + made.before.delayed + made.before.dead) > most:
            raise ConfigurationError(
                f"queue {source.name!r} has {many:,} messages, more than the {most:,} that are moved at once: use `rmq"
                " export`, `rmq import` and `rmq purge --exported`"
            )
        file.writelines(made.lines())
        file.seek(0)
        into.check(ExportFile(file))
        _equip(source, target)
        file.seek(0)
        into.run(ExportFile(file))
        into.forget()  # so that messages that come back can be moved again
        file.seek(0)
        where = matches_of(ids_in(ExportFile(file)))
        deleted = sum(source.admin.purge(state, where=match) for state, match in where.items())
    return MoveReport(made.counts.total(), made.counts.total() - deleted, made.before.leased)


def _equip(source: Any, target: Any) -> None:
    stored = {name: value for name, value in source.admin.settings().stored.items() if name != "shards"}
    is_new = source.discipline == target.discipline and not any(target.stats()[:5])
    if stored and is_new and not target.admin.settings().stored:
        target.admin.configure(**stored)


def ids_in(read: ExportFile) -> dict[str, set[str]]:
    """Return the ids of an export, by state. Raises ExportDamaged."""
    ids: dict[str, set[str]] = {}
    for line in read:
        message = message_of_line(line, ANY_SIZE)
        ids.setdefault(message.state, set()).add(split(message.envelope).id)
    read.check_end("nothing was deleted")
    return ids


def matches_of(ids: dict[str, set[str]]) -> dict[str, Match]:
    """Return the conditions under which a purge of each state deletes exactly these messages; no leased ones."""
    return {each: Match(message_id=ids[each]) for each in STATES if ids.get(each) and each != "leased"}
