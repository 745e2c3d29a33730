"""The end of `make demo SERVE=1`: the console of what the demo did, without the minutes of its orchestrators."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from example_dags.demo.family import descendants
from rmq_core import LeasedQueue, embedded
from tests.servers.process import DIES_WITH_US

ROOT = Path(__file__).parents[3]
# The demo as it is, but for its work: a claim and an ack stand for the orchestrators, which take seconds to import.
SHORT = """
import sys
from types import SimpleNamespace

from example_dags.demo.outcome import EXPECTED, STEPS, Outcome
from example_dags.flights import work_items


def side(name, queue_name):
    def run(place, progress, *, crash):
        with place.queue(queue_name) as queue:
            queue.publish_many([dict(item) for item in work_items()])
            queue.ack(queue.claim(max_messages=2000, lease_id=f"the run of {name}"))
        return Outcome(name, EXPECTED, dict.fromkeys(STEPS, 0.0), place.root, place.root)

    return SimpleNamespace(run=run, QUEUE=queue_name)


turns = SimpleNamespace(summary=str, mismatches=list)
for name, module in {
    "airflow_side": side("Airflow", "days"),
    "dagster_side": side("Dagster", "days-dagster"),
    "turns": SimpleNamespace(run=lambda *_: turns, Turns=None),
}.items():
    sys.modules[f"example_dags.demo.{name}"] = module
    setattr(__import__("example_dags.demo").demo, name, module)

from example_dags.demo.__main__ import main

sys.exit(main())
"""


@pytest.fixture
def short(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The short demo that serves, and its directory."""
    folder = tmp_path / "demo"
    words = [sys.executable, "-c", SHORT, "--serve", "--directory", str(folder)]
    process = subprocess.Popen([*DIES_WITH_US, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    yield process, folder
    process.kill()
    process.communicate()
    embedded.stop(folder / "redis")


def said_until(process: subprocess.Popen[str], last: str) -> str:
    """Return what a process prints up to a line that begins with `last`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(last):
            break
    return "".join(lines)


@pytest.mark.slow
def test_a_newcomer_follows_a_message_of_the_demo_in_the_console_and_ends_it_all(
    short: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = short
    said = said_until(process, "For `rmq` in another terminal")
    assert "All figures are as expected" in said
    assert said.endswith(f"export RMQ_URL=embedded://{folder}/redis\n")
    pages = re.findall(r"(http://[\d.:]+/)#/redis/(\S+)/(why|leases)/(\S+)", said)
    assert [(queue, tab) for _, queue, tab, _ in pages] == [
        (queue, tab) for queue in ("days", "days-dagster") for tab in ("why", "leases")
    ]
    for address, queue, tab, about in pages:
        assert httpx.get(address).status_code == 200
        if tab == "why":
            told = httpx.get(f"{address}api/connections/redis/why", params={"name": queue, "message_id": about}).json()
            assert [step["what"] for step in told["steps"]] == ["published", "claimed", "acked"]
    with LeasedQueue(f"embedded://{folder}/redis", "try-the-buttons") as queue:
        assert queue.stats()[:5] == (900, 95, 60, 1, 40)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert (process.returncode, "have been stopped" in rest) == (0, True)
    assert not embedded.is_running(folder / "redis")
    with pytest.raises(httpx.ConnectError):
        httpx.get(pages[0][0])


@pytest.mark.slow
def test_a_console_that_ends_by_itself_fails_the_demo(short: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = short
    said_until(process, "For `rmq` in another terminal")
    (console,) = [pid for pid in descendants(process.pid) if b"\0serve\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(console, signal.SIGKILL)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert not embedded.is_running(folder / "redis")
