"""One message that fails or kills its step, among many: the others are acked after few runs, whatever the retries.

The full form has 200 messages and six ways; the short form one, on a few messages.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster.tags import CLAIMED, ISOLATED, SENSOR
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
SHORT = {"fails_1": 8}
WORDS = {"fails": "fails its step", "kills": "kills its process"}
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
                queue.publish_many(
                    [POISON if number == messages // 3 else f"good {number}" for number in range(messages)]
                )
        yield running


def runs(deployment: Deployment, case: str) -> list[dg.DagsterRun]:
    """Return the runs that the sensor of a case requested."""
    return list(deployment.instance.get_runs(dg.RunsFilter(tags={SENSOR: f"bell_{case}"})))


def runs_needed(deployment: Deployment, case: str) -> int:
    """Return how many runs had claimed when the last message other than the poison was acked."""
    notes = [note for note in deployment.board.notes("began", "acked") if note["mode"] == case]
    last = max(place for place, note in enumerate(notes) if note["event"] == "acked")
    return len({note["run"] for note in notes[:last]})


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


def test_one_poison_message_costs_few_runs_and_no_other_message_dies(
    deployment: Deployment, redis: Server, case: str, pytestconfig: pytest.Config
) -> None:
    messages, (what, _, retries) = chosen(pytestconfig)[case], case.partition("_")
    bound = math.floor(2 * math.log2(messages) + 4)
    with LeasedQueue(redis.url, case, CONFIG) as queue:
        await_that(lambda: sum(queue.stats()[:3]) == 0, deployment)
        assert [letter.payload for letter in queue.dead_letters(10)] == [POISON]
    needed, asked = runs_needed(deployment, case), runs(deployment, case)
    PAGE.figures.append(
        Figure(
            f"runs until all but the one of {messages} messages that {WORDS[what]} are acked, {retries} step retries",
            str(needed),
            f"≤ {bound}",
            met=needed <= bound,
        )
    )
    assert needed <= bound
    assert sum(run.tags.get(CLAIMED) == "0" for run in asked) <= 2, "runs for nothing"
    assert most_at_once(deployment, case) > 1, "the two halves of what failed together are asked for at once"
    assert any(run.tags.get(ISOLATED) == "true" for run in asked)
