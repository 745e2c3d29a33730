"""The same situations through Airflow and through Dagster: nothing is lost, settled by a stale holder or stuck.

The full form publishes for ten minutes, and five minutes stand for an hour; `--live` sets another duration.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.report import Cell
from tests.faults.situations.airflow import airflow_pipeline
from tests.faults.situations.dagster import dagster_pipeline
from tests.faults.situations.page import PAGE
from tests.faults.situations.situations import SITUATIONS, Pipeline, Play, Scale
from tests.servers import start_server

pytestmark = pytest.mark.slow
IN_AIRFLOW = pytest.mark.nightly("airflow/test_consume.py::test_the_retry_of_a_sigkilled_try_processes_its_messages")
IN_DAGSTER = pytest.mark.nightly(
    "dagster/test_daemon.py::test_a_run_is_requested_again_for_a_failed_message_and_none_after_its_ack"
)
PIPELINES = {"airflow": airflow_pipeline, "dagster": dagster_pipeline}


@pytest.fixture(
    scope="module", params=[pytest.param("airflow", marks=IN_AIRFLOW), pytest.param("dagster", marks=IN_DAGSTER)]
)
def pipeline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    redis = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    try:
        with PIPELINES[request.param](redis, tmp_path_factory.mktemp(request.param)) as running:
            yield running
    finally:
        redis.stop()


@pytest.fixture(scope="module")
def scale(pytestconfig: pytest.Config) -> Scale:
    live_s = pytestconfig.getoption("live") or (600 if pytestconfig.getoption("faults") == "full" else 60)
    return Scale(live_s, live_s / 2)


@pytest.mark.parametrize("queue", SITUATIONS)
def test_a_situation_loses_nothing_and_settles_nothing_stale(pipeline: Pipeline, queue: str, scale: Scale) -> None:
    title, happen = SITUATIONS[queue]
    play = Play(pipeline, queue, scale)
    happen(play)
    cell = Cell(title, pipeline.name, play.count())
    PAGE.cells.append(cell)
    print(cell)
    assert PAGE.wrong(cell) == {}
