"""The logs of every part of Airflow, and of the tasks, while a DAG publishes, waits and consumes undisturbed."""

from __future__ import annotations

import re

import pytest

from tests.airflow.runs import complaints
from tests.faults.airflow.scene import PATIENCE_S, World
from tests.servers.process import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("airflow/test_example_dags.py::test_fan_out_shares_the_months_among_three_tasks"),
]
RUN = ("undisturbed", "one")
NAMES_US = re.compile("rmq_|rmq:|redis_queue|/rmq/(api|static)")


def test_an_undisturbed_run_logs_no_warning_and_no_error(deployed: World) -> None:
    airflow = deployed.airflow
    before = {part: airflow.log(part).stat().st_size for part in airflow.parts}
    airflow.rest.trigger(*RUN, {})
    until(lambda: airflow.rest.run_state(*RUN) in ("success", "failed"), PATIENCE_S, pace_s=1)
    assert airflow.rest.page("/api/connections/redis_queue_default/queues")["registered"] >= 1
    assert {task.state for task in airflow.rest.tasks(*RUN).values()} == {"success"}
    tasks = list(airflow.home.glob("logs/dag_id=undisturbed/**/*.log"))
    assert len(tasks) >= 4
    assert [complaints(log.read_text()) for log in tasks] == [[]] * len(tasks)
    since = {part: airflow.log(part).read_bytes()[size:].decode() for part, size in before.items()}
    ours = {part: [line for line in complaints(log) if NAMES_US.search(line)] for part, log in since.items()}
    assert ours == {part: [] for part in airflow.parts}
