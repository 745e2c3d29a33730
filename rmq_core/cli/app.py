"""Registers the commands under their names, and turns the errors of a command into its exit code."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from rmq_core.cli import (
    consume,
    dead,
    doctor,
    edit,
    history,
    inspecting,
    journal,
    operating,
    publish,
    reap,
    running,
    search,
    serve,
    top,
    transfers,
    why,
)
from rmq_core.cli.failures import Exit, report
from rmq_core.cli.output import escape_what_is_missing
from rmq_core.cli.shared import Group, root, shared
from rmq_core.errors import RedisMessageQueueError
from rmq_core.queue.verbs import VERBS, offered

# Rich tracebacks would print local variables, and with them tokens and payloads.
app = typer.Typer(
    name="rmq",
    cls=Group,
    callback=root,
    help="Queues on Redis: publish, consume, inspect, repair. The exit code is 0 when all went well, 1 when something"
    " failed, 2 for a wrong parameter, 3 when Redis does not answer, 4 when there is no room.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
queues = typer.Typer(cls=Group, callback=shared, help="All queues of a server.", no_args_is_help=True)
letters = typer.Typer(
    cls=Group, callback=shared, help="Dead letters: messages that failed too often.", no_args_is_help=True
)
journals = typer.Typer(
    cls=Group,
    callback=shared,
    help="Journals: who published, claimed and settled which messages.",
    no_args_is_help=True,
)

app.command()(publish.publish)
app.command()(consume.consume)
app.command()(running.run)
app.command()(inspecting.stats)
app.command()(inspecting.peek)
app.command()(inspecting.leases)
for verb in offered():
    operating.add_to(app, verb)
app.command()(search.search)
app.command()(transfers.export)
app.command("import")(transfers.import_)
app.command()(reap.reap)
app.command()(doctor.doctor)
app.command()(top.top)
app.command()(serve.serve)
app.command()(serve.token)
app.command()(history.history)
app.command()(history.mark)
app.command()(why.why)
queues.command("list")(inspecting.listed)
operating.add_to(queues, VERBS["unregister"])
letters.command("list")(dead.listed)
letters.command("reasons")(dead.reasons)
letters.command("edit")(edit.edit)
letters.command("redrive")(dead.redrive)
letters.command("purge")(dead.purge)
journals.command("export")(journal.export)
app.add_typer(queues, name="queues")
app.add_typer(letters, name="dlq")
app.add_typer(journals, name="journal")


def run(arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code."""
    escape_what_is_missing()
    try:
        app(args=arguments, prog_name="rmq")
    except RedisMessageQueueError as error:
        return report(error)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else Exit.FAILED
    return Exit.DONE
