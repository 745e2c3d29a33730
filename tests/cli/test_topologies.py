from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer

from rmq_cli import main
from rmq_cli.app import app
from rmq_cli.opening import settings_of
from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.kernel.keys import QUEUES
from rmq_core.protocol import DISCIPLINES
from tests.core.topologies import LOGIN, Certificates, cluster, sentinel
from tests.servers import Cluster, name_on

SERVERS = {"serve", "token"}  # `console/serve/test_topologies.py` asks the first; the second asks no server


@pytest.fixture(params=[sentinel, cluster], ids=["sentinel", "cluster"], scope="module")
def variables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the environment variables that lead to several servers."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    with request.param(Certificates(folder)) as topology:
        secrets = {**LOGIN, **topology.options}
        yield {"RMQ_URL": topology.url, **{f"RMQ_{name.upper()}": value for name, value in secrets.items()}}


@pytest.fixture
def rmq(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        return ended.value.code, "".join(capfd.readouterr())

    return run


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_command_works_behind_sentinels_and_in_a_cluster(
    rmq: Callable[..., tuple[int, str]], discipline: str
) -> None:
    queue = f"of {discipline}"
    payload = ['{"n":1}', "-j"] if discipline == "streams" else ["one"]
    assert rmq("publish", queue, *payload, "-d", discipline)[0] == 0
    assert queue in rmq("queues", "list")[1]
    assert queue in rmq("stats")[1]
    assert rmq("peek", queue)[0] == 0
    assert rmq("reap", queue)[0] == 0
    assert "1 acked" in rmq("consume", queue)[1]
    _, told = rmq("doctor", queue)
    assert "may do all that is needed" in told
    assert "loses every message" in told or "only replicas" in told


class Walk:
    """Runs commands on one queue, remembers which, and fails at the first that does not end with 0."""

    def __init__(self, rmq: Callable[..., tuple[int, str]], queue: str) -> None:
        self.rmq, self.queue = rmq, queue
        self.taken: set[str] = set()

    def __call__(self, verb: str, *arguments: str) -> str:
        self.taken.add(verb)
        code, told = self.rmq(*verb.split(), *arguments)
        assert code == 0 or verb == "doctor", (verb, told)  # it complains about servers without persistence
        return told

    def lines(self, verb: str, *arguments: str) -> list[str]:
        """Return the lines of JSON that the command writes."""
        return [line for line in self(verb, self.queue, *arguments).splitlines() if line.startswith("{")]

    def ids(self, verb: str, *arguments: str) -> list[str]:
        """Return the id of each record that the command writes."""
        return [str(json.loads(line)["id"]) for line in self.lines(verb, *arguments, "--json")]


@pytest.mark.parametrize("variables", [cluster], indirect=True, ids=["cluster"])
@pytest.mark.parametrize("node", range(3))
def test_every_verb_works_on_a_queue_of_any_node_of_a_cluster(
    rmq: Callable[..., tuple[int, str]], node: int, tmp_path: Path
) -> None:
    walk, queue = Walk(rmq, name_on(node)), name_on(node)
    walk("publish", queue, "one", "two")
    walk("stats")
    walk("stats", queue)
    walk("configure", queue, "max_dead=500")
    walk("top", "--times", "1")
    walk("queues list")
    walk("doctor", queue)
    one, *_ = walk.ids("peek")
    walk("why", queue, one)
    walk("search", queue, "--text", "one")
    walk("mark", queue, "a mark")
    walk("history", queue)
    walk("cancel", queue, one, "-y")
    walk("dead-letter", queue, *walk.ids("peek"))
    walk("dlq redrive", queue, "--max", "1")
    walk("publish", queue, "later", "--delay", "3600")
    walk("run-now", queue, *walk.ids("peek", "--state", "delayed"))
    held(queue, 2)
    walk("groups", queue)
    walk("shards", queue)
    walk("clients", queue)
    walk("publications", queue)
    leases = walk.ids("leases")
    assert len(leases) == 2
    walk("release", queue, leases[0])
    walk("expire", queue, leases[1], "-y")
    walk("release-leases", queue, "nobody", "-y")
    walk("expire-leases", queue, "nobody", "-y")
    walk("reap", queue)
    walk("pause", queue, "--reason", "a drill")
    (tmp_path / "export").write_text("\n".join(walk.lines("export")))
    walk("resume", queue)
    walk("consume", queue)
    walk("import", queue, str(tmp_path / "export"))
    walk("publish", queue, "three", "four")
    buried(queue)
    walk("dlq reasons", queue)
    letters = walk.ids("dlq list")
    walk("dlq edit", queue, letters[0], "better", "-y")
    walk("dlq redrive", queue, "--max", "1")
    walk("dlq purge", queue, "-y")
    walk("purge", queue, "--state", "ready", "--text", "no such text", "-y")
    walk("configure", queue, "groups=fair")
    walk("publication", queue, "report")
    walk("journal export", queue, "--to", str(tmp_path / "journal.jsonl"))
    walk("run", "builtins:print", "--queue", queue, "--until-empty")
    walk("queues forget", queue)
    assert queue not in walk("queues list")
    assert walk.taken == set(verbs(typer.main.get_command(app))) - SERVERS


def opened(queue: str) -> LeasedQueue:
    return LeasedQueue(settings_of(os.environ["RMQ_URL"]), queue, LeasedConfig(max_deliveries=1, journal=1000))


def held(queue: str, count: int) -> None:
    with opened(queue) as consumer:
        for _ in range(count):
            assert consumer.claim(lease=3600) is not None


def buried(queue: str) -> None:
    with opened(queue) as consumer:
        while lease := consumer.claim():
            consumer.nack(lease, reason="it failed")


def verbs(command: Any, *above: str) -> Iterator[str]:
    """Yield the names of all commands."""
    for name, each in command.commands.items():
        yield from verbs(each, *above, name) if hasattr(each, "commands") else [" ".join((*above, name))]


def test_a_queue_whose_node_answers_is_opened_without_the_list_of_queues(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(Cluster("7.0")) as made:
        monkeypatch.setenv("RMQ_URL", made.url)
        listing = made.owner(QUEUES.decode())
        name = name_on((made.nodes.index(listing) + 1) % 3)
        listing.kill9()
        for options, code, shown in (["-d", "leased"], 0, name), ([], 3, "--discipline opens a queue"):
            with pytest.raises(SystemExit) as ended:
                main(["stats", name, *options])
            assert (ended.value.code, shown in "".join(capfd.readouterr())) == (code, True)
