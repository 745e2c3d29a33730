from __future__ import annotations

import uuid

import pytest

from rmq_airflow.identity import TaskIdentity
from rmq_airflow.plugin.holders import path_of
from rmq_console.serve.links import DAGSTER, Links
from rmq_core import ConfigurationError
from rmq_dagster.runs.identity import is_run_id

ADDRESSES = ["airflow=https://airflow.test/team/", "dagster=http://dagster.test:3000", "spark=http://spark.test:18080/"]
TASKS = [
    TaskIdentity("etl", "manual__2026-01-01T00:00:00+00:00", "load", -1, 1),
    TaskIdentity("etl", "a/run/id/with/slashes", "group.load", 7, 3),
    TaskIdentity("a?b", "../../x", "t#1", -1, 12),
]
RUN = "0b8c7e52-3c4c-4b6e-9f0e-1a2b3c4d5e6f"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mark", ["", "@5f5e100.0.18c2d3e4f5a6b7c8"])
def test_a_task_of_airflow_is_linked_as_on_airflows_own_page(task: TaskIdentity, mark: str) -> None:
    owner = f"{task.owner}{mark}"
    assert TaskIdentity.read(owner) is not None
    found = Links(ADDRESSES).holder_of(owner)
    assert found is not None
    assert found["href"] == f"https://airflow.test/team{path_of(task)}"
    assert (found["names"][0], found["run"], found["attempt"]) == (task.dag_id, task.run_id, f"try {task.try_number}")


@pytest.mark.parametrize("owner", [str(uuid.UUID(int=number)) for number in (0, 1 << 127)] + [RUN, RUN.upper(), "x"])
def test_the_owners_that_dagster_writes_are_recognised(owner: str) -> None:
    assert is_run_id(owner) is (DAGSTER.fullmatch(owner) is not None)


def test_an_application_of_spark_is_linked_to_the_history_server_or_to_an_address_of_its_own() -> None:
    yarn = Links(["spark=https://yarn.test/cluster/app/{application}"])
    for owner in ("spark:application_1_2", "spark:application_1_2/0b8c", "spark application_1_2"):
        holder = Links(ADDRESSES).holder_of(owner)
        assert holder
        assert (holder["names"], holder["href"]) == (
            ["Spark", "application_1_2"],
            "http://spark.test:18080/history/application_1_2/jobs/",
        )
        assert (yarn.holder_of(owner) or {}).get("href") == "https://yarn.test/cluster/app/application_1_2"


@pytest.mark.parametrize(
    "owner",
    [
        "",
        "worker-7",
        "airflow:",
        "airflow:dag/run/task/0",
        "airflow:a/b/c/x/1",
        "spark-1",
        "spark:",
        "spark:<b>",
        "dagster a/b/c",
    ],
)
def test_any_other_owner_names_nobody(owner: str) -> None:
    assert Links(ADDRESSES).holder_of(owner) is None


@pytest.mark.parametrize(
    "text",
    [
        "airflow",
        "airflow=",
        "airflow=airflow.test",
        "airflow=javascript://x",
        "spark=ftp://x/{application}",
        "flink=http://x",
        "=http://x",
    ],
)
def test_a_link_that_no_browser_could_open_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--link"):
        Links([text])
