"""Messages that fail or kill their step, among many: the others are acked after few runs, whatever the retries.

The status sensors are on, and the lease is the default, so that only they can return what a killed step held in time.
The full form has 200 messages, one to five of them bad; the short form a few.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster.runs.identity import CLAIMED, ISOLATED, SENSOR
from tests.faults.dagster.deployment import Deployment, deployed
from tests.faults.dagster.page import PAGE
from tests.faults.dagster.poison import CASES, CONFIG, POISON
from tests.faults.dagster.ways import URL
from tests.faults.report import Figure
from tests.servers import Server
from tests.servers.postgres import Postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("dagster/test_isolation.py::test_runs_find_the_bad_message_by_halving_and_report_it"),
]

FULL = {f"{what}_{retries}": 200 for what in ("fails", "kills") for retries in (0, 1, 3)}
FULL |= {"kills5_0": 200, "steps_0": 200, "steps5_0": 200}
SHORT = {"fails_1": 8, "steps_0": 8}
WORDS = {
    "fails": "message that fails its step",
    "kills": "message that kills its process",
    "kills5": "messages that kill their process",
    "steps": "message that kills its process, worked on one by one",
    "steps5": "messages that kill their process, worked on one by one",
}
PATIENCE_S, LOOK_S = 3600, 0.5


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", chosen(metafunc.config))


def chosen(config: pytest.Config) -> dict[str, int]:
    """The number of messages of each case."""
    return FULL if config.getoption("faults") == "full" else SHORT


@pytest.fixture(scope="module")
def deployment(
    redis: Server, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Deployment]:
    """Run all cases concurrently, each in its own lane: they share only the machine."""
    cases, told = chosen(pytestconfig), {URL: redis.url, CASES: " ".join(chosen(pytestconfig))}
    with deployed(tmp_path_factory.mktemp("dagster"), postgres, "tests.faults.dagster.poison", told) as running:
        for case, messages in cases.items():
            with LeasedQueue(redis.url, case, CONFIG) as queue:
                poisons = poisons_of(case)
                bad = {(messages // 3 + each * messages // poisons) % messages for each in range(poisons)}
                queue.publish_many([POISON if number in bad else f"good {number}" for number in range(messages)])
        yield running


def poisons_of(case: str) -> int:
    """Return how many messages of a case are bad."""
    return 5 if "5" in case else 1


def runs(deployment: Deployment, case: str) -> list[dg.DagsterRun]:
    """Return the runs that the sensor of a case requested."""
    return list(deployment.instance.get_runs(dg.RunsFilter(tags={SENSOR: f"bell_{case}"})))


def before_the_last_ack(deployment: Deployment, case: str, event: str) -> int:
    """Return how many runs began, or were hit by a bad message, before the last of the others was acked."""
    notes = [note for note in deployment.board.notes(event, "acked") if note["mode"] == case]
    last = max(place for place, note in enumerate(notes) if note["event"] == "acked")
    return len({note["run"] for note in notes[:last] if note["event"] == event})


def await_that(condition: Any, deployment: Deployment) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, deployment.log()
        time.sleep(LOOK_S)


def most_at_once(deployment: Deployment, case: str) -> int:
    """Return the largest number of runs that a tick of the sensor requested."""
    instance: Any = deployment.instance
    (state,) = [state for state in instance.all_instigator_state() if state.instigator_name == f"bell_{case}"]
    return max(len(tick.run_ids) for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id))


def test_poison_costs_few_runs_and_no_other_message_dies(
    deployment: Deployment, redis: Server, case: str, pytestconfig: pytest.Config
) -> None:
    messages, (what, _, retries) = chosen(pytestconfig)[case], case.partition("_")
    poisons = poisons_of(case)
    with LeasedQueue(redis.url, case, CONFIG) as queue:
        await_that(lambda: sum(queue.stats()[:3]) == 0, deployment)
        assert [letter.payload for letter in queue.admin.dead_letters(10)] == [POISON] * poisons
    # No strategy finds five that kill whole batches in as few runs as one: it has to tell 2.5 billion cases apart.
    bound = math.floor(2 * math.log2(messages) + 4) * (poisons if what == "kills5" else 1)
    hit, needed = (before_the_last_ack(deployment, case, event) for event in ("hit", "began"))
    PAGE.figures.append(
        Figure(
            f"runs until all but {poisons} of {messages} are acked: {WORDS[what]}, {retries} step retries",
            f"{needed}, of which {hit} failed",
            f"≤ {bound}",
            met=needed <= bound,
        )
    )
    assert needed <= bound
    asked = runs(deployment, case)
    assert sum(run.tags.get(CLAIMED) == "0" for run in asked) <= 2, "runs for nothing"
    if not what.startswith("steps"):  # in steps, one message is blamed, and no others are under suspicion
        assert any(run.tags.get(ISOLATED) == "true" for run in asked)
        assert most_at_once(deployment, case) > 1, "the two halves of what failed together are asked for at once"
