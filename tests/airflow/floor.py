"""Features that the oldest supported Airflow, 3.2.0, does not have. `make floor` runs all other tests there, too."""

from __future__ import annotations

from importlib.metadata import version

BELOW_33 = tuple(map(int, version("apache-airflow-core").split(".")[:2])) < (3, 3)
FILES = {
    "test_triggerer.py": "the bridge needs shared streams, and the trigger runner is started in another way",
    "test_spark_cluster.py": "finding a driver again needs the Spark provider 6.3 and the task state store",
}
TESTS = {
    "test_every_module_it_names_can_be_imported[rmq_airflow.triggers.shared_stream]": "no shared streams",
    "test_the_roles_of_fab_have_their_rights": "its packages are those that the newest Airflow goes with",
    "test_a_sensor_needs_no_worker_from_start_to_end_and_the_next_task_gets_its_report": "a worker polls first",
}
ABSENT_FILES = sorted(FILES) if BELOW_33 else []
ABSENT_TESTS = TESTS if BELOW_33 else {}
CALLBACKS_GET_EXCEPTIONS = not BELOW_33
"""Whether `dag.test()` passes the exception of a task to its callbacks, as the task runner does in all versions."""
LEAVES_A_PIPE_OPEN = "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"
"""The warning of a failed Bash operator of the oldest standard provider."""
