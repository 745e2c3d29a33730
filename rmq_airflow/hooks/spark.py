"""The Spark provider's submit hook with a driver that can be given secrets, and that can be stopped.

Law: what is in `secrets` reaches the driver through its process environment and nothing else: no argument, no Spark
configuration, no log line. `env_vars` would not do: on YARN and Kubernetes the provider turns those into `--conf`.
Where `spark-submit` is missing, the operator says so before it claims a message.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from rmq_core import ConfigurationError


class LeasedSparkSubmitHook(SparkSubmitHook):
    """A configured provider's hook in client mode, whose driver gets `secrets` and a session of its own.

    `on_start` gets the number of the driver's process group.
    """

    def __init__(self, hook: SparkSubmitHook, secrets: Mapping[str, str], on_start: Callable[[int], None]) -> None:
        vars(self).update(vars(hook))  # in place of the 34 arguments that made the provider's hook what it is
        self._secrets = secrets
        self._on_start = on_start

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run the driver and wait for it; AirflowException when it fails."""
        try:
            return super().submit(application, start_new_session=True, **kwargs)
        finally:
            if self._submit_sp is not None:
                self._submit_sp.stdout.close()  # the provider's hook leaves it open

    def check_binary(self) -> None:
        """ConfigurationError, which says where to get one, when there is no `spark-submit`."""
        _path_to(self._connection["spark_binary"], self._env_vars or {})

    def reap(self) -> None:
        """Take leave of a driver that has ended while nobody waited for it, as after a time-out."""
        if self._submit_sp is not None:
            self._submit_sp.poll()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        self._env = {**(self._env or {}), **self._secrets}
        self._env |= _path_to(command[0], self._env)
        return command

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        # The first thing that `submit` does once the driver runs. The session's leader has its group's number.
        if self._submit_sp is not None:
            self._on_start(self._submit_sp.pid)
        super()._process_spark_submit_log(itr)


def _path_to(binary: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The PATH on which `binary` is found, where that is not PATH as it is; ConfigurationError when there is none.

    A Spark of one's own is where SPARK_HOME says; pip puts pyspark's beside the interpreter, where PATH need not lead.
    The driver then runs with that interpreter, which has RMQ, unless PYSPARK_PYTHON names another.
    """
    known = {**os.environ, **environment}
    path, home = known.get("PATH", os.defpath), known.get("SPARK_HOME")
    if shutil.which(binary, path=path):
        return {}
    folders = os.pathsep.join([*([f"{home}/bin"] if home else []), str(Path(sys.executable).parent)])
    if shutil.which(binary, path=folders):
        return {"PATH": f"{folders}{os.pathsep}{path}"}
    raise ConfigurationError(_nowhere(binary, home))


def _nowhere(binary: str, home: str | None) -> str:
    return (
        f"there is no `{binary}` on PATH, in {home or '$SPARK_HOME'}/bin or beside Python: `pip install "
        "'rmq[airflow-spark]'` brings Spark along (pyspark-client does not), or install Apache Spark on the worker and "
        "set SPARK_HOME"
    )
