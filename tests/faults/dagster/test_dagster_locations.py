"""Two code locations with the same definitions, so that each has a sensor of the one queue; a daemon that is killed.

No message is worked on twice, and runs that find nothing succeed and say so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster.runs.identity import CLAIMED, REPOSITORY
from tests.faults import tally
from tests.faults.dagster.deployment import running
from tests.faults.dagster.located import BATCH, CONFIG, QUEUE
from tests.faults.dagster.page import PAGE
from tests.faults.dagster.parts import DAEMON, Parts
from tests.faults.dagster.ways import URL
from tests.faults.patience import eventually
from tests.faults.report import Figure
from tests.servers import Server
from tests.servers.postgres import Postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "dagster/test_scale.py::test_the_same_sensor_in_two_code_locations_loses_and_repeats_no_message"
    ),
]

LOCATIONS = ("north", "south")
BURSTS, BURST = 6, 2 * BATCH
PATIENCE_S = 900


@pytest.fixture
def parts(redis: Server, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    folder = tmp_path_factory.mktemp("dagster")
    with running(Parts(folder, postgres, "tests.faults.dagster.located", {URL: redis.url}, LOCATIONS)) as deployment:
        yield deployment


def test_two_code_locations_with_one_queue_repeat_no_message_also_when_the_daemon_is_killed(
    parts: Parts, redis: Server
) -> None:
    payloads = [f"{burst}/{number}" for burst in range(BURSTS) for number in range(BURST)]
    with LeasedQueue(redis.url, QUEUE, CONFIG) as queue:
        for burst in range(BURSTS):
            queue.publish_many(payloads[burst * BURST :][:BURST])
            time.sleep(7)  # runs of both locations start and end while more messages come
            if burst == BURSTS // 2:
                tally.count("Dagster daemon killed, two code locations")
                parts.restart_part(DAEMON)
        eventually(lambda: sum(queue.stats()[:3]) == 0, PATIENCE_S)
        assert queue.stats().dead == 0
    eventually(lambda: all(run.is_finished for run in parts.instance.get_runs()), PATIENCE_S)
    runs = parts.instance.get_runs()
    worked_on = Counter(payload for note in parts.board.notes("did") for payload in note["payloads"])
    assert worked_on == Counter(payloads)
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
    assert all(parts.instance.get_runs(dg.RunsFilter(tags={REPOSITORY: f"__repository__@{one}"})) for one in LOCATIONS)
    assert sum(int(run.tags[CLAIMED]) for run in runs) == len(payloads)
    idle = [run for run in runs if run.tags[CLAIMED] == "0"]
    assert {_claimed(parts, run) for run in idle} <= {0}
    what = f"runs of two code locations for {len(payloads)} messages of one queue; of these found nothing"
    PAGE.figures.append(Figure(what, f"{len(runs)}; {len(idle)}", "", met=True))
    print(PAGE.figures[-1])


def _claimed(parts: Parts, run: dg.DagsterRun) -> object:
    """Return what the page of a run shows as `rmq/claimed`."""
    (stored,) = parts.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    assert stored.asset_materialization
    return stored.asset_materialization.metadata["rmq/claimed"].value
