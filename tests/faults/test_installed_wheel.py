"""The wheel, installed by pip and by uv in fresh environments: which Spark they get, and what the Spark operator does.

Each environment is a whole Airflow and takes minutes, so these tests run only with `--faults=full`. In shorter runs,
`architecture/test_extras_of_the_wheel.py` tests what the installers resolve.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

from rmq_core import LeasedQueue
from tests.wheel import BOTH, build_wheel, install_with_pip, install_with_uv, installed, requirements

INSTALLERS = {"pip": install_with_pip, "uv": install_with_uv}
PROVIDER = "apache-airflow-providers-apache-spark"
JOBS = Path(__file__).parents[1] / "airflow" / "jobs"
Make = Callable[[Path, Sequence[str]], str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(params=INSTALLERS)
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = INSTALLERS[request.param]
    return made


def test_the_spark_extra_installs_one_pyspark_that_runs_a_job(
    make: Make, wheel: Path, tmp_path: Path, redis_url: str
) -> None:
    python = make(tmp_path / "env", requirements(wheel, "airflow-spark"))
    assert installed(python, tmp_path) & set(BOTH) == {"pyspark"}
    check_that_a_job_runs(python, tmp_path, redis_url)


def test_without_an_installed_spark_the_operator_uses_spark_home_or_explains_how_to_get_spark(
    make: Make, wheel: Path, tmp_path: Path, redis_url: str
) -> None:
    python = make(tmp_path / "env", requirements(wheel, "airflow", [f"{PROVIDER}>=6.1"]))
    assert installed(python, tmp_path) & set(BOTH) == {"pyspark-client"}
    with LeasedQueue(redis_url, "numbers") as queue:
        queue.publish({"n": 1})
        said = run_task(python, tmp_path, redis_url)
        assert said.returncode != 0
        last = said.stderr.strip().splitlines()[-1]
        assert "there is no `spark-submit` on PATH" in last
        assert "pip install 'rmq[airflow-spark]'" in last
        assert queue.backlog().ready == 1, "the operator claimed a message"
        queue.admin.purge("ready")
    check_that_a_job_runs(python, tmp_path, redis_url, SPARK_HOME=str(Path(pyspark.__file__).parent))


def check_that_a_job_runs(python: str, folder: Path, redis_url: str, **variables: str) -> None:
    with LeasedQueue(redis_url, "numbers") as queue:
        queue.publish_many([{"n": n} for n in (1, 2, 3)])
        said = run_task(python, folder, redis_url, **variables)
        assert said.returncode == 0, said.stderr[-4000:]
        report = json.loads(said.stdout.splitlines()[-1])
        assert (report["outcome"], report["acked"]) == ("acked", 3)
        assert json.loads((folder / "sum").read_text()) == 6
        assert queue.stats().dead == queue.backlog().ready == 0


def run_task(python: str, folder: Path, redis_url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the operator with the environment's Python by its path; its `bin` is not on PATH, as for some workers."""
    connections: dict[str, dict[str, Any]] = {
        "AIRFLOW_CONN_REDIS_QUEUE_DEFAULT": {"conn_type": "redis_queue", "extra": {"url": redis_url}},
        "AIRFLOW_CONN_SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
    }
    kept = {name: value for name, value in os.environ.items() if name.startswith(("JAVA", "LANG", "HOME"))}
    environment = {
        **kept,
        **{name: json.dumps(fields) for name, fields in connections.items()},
        "PATH": "/usr/bin:/bin",
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        **variables,
    }
    return subprocess.run(
        [python, str(JOBS / "sum_task.py"), str(JOBS / "sum_job.py"), str(folder / "sum")],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
