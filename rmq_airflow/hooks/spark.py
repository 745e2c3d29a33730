"""The Spark provider's submit hook, extended to pass secrets to the driver and to stop the driver.

Law: `secrets` reach the driver only through its process environment: not through an argument, Spark's configuration or
a log line. `env_vars` is not an alternative: on YARN and Kubernetes the provider turns it into `--conf`. If
`spark-submit` is missing, the operator reports that before it claims a message.
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
    """A configured hook of the provider in client mode, whose driver gets `secrets` and a process session of its own.

    The hook calls `on_start` with the id of the driver's process group.
    """

    def __init__(self, hook: SparkSubmitHook, secrets: Mapping[str, str], on_start: Callable[[int], None]) -> None:
        vars(self).update(vars(hook))  # instead of passing the provider hook's 34 constructor arguments again
        self._secrets = secrets
        self._on_start = on_start

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run the driver and wait for it. Raises AirflowException if it fails."""
        try:
            return super().submit(application, start_new_session=True, **kwargs)
        finally:
            if self._submit_sp is not None:
                self._submit_sp.stdout.close()  # the provider's hook leaves it open

    def check_binary(self) -> None:
        """Raise ConfigurationError if there is no `spark-submit`; its text says how to install it."""
        _path_to(self._connection["spark_binary"], self._env_vars or {})

    def reap(self) -> None:
        """Reap the process of a driver that ended while no code waited for it, as after a timeout."""
        if self._submit_sp is not None:
            self._submit_sp.poll()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        self._env = {**(self._env or {}), **self._secrets}
        self._env |= _path_to(command[0], self._env)
        return command

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        # `submit` calls this method first after it has started the driver. The process leads its session, so its pid is
        # the id of its process group.
        if self._submit_sp is not None:
            self._on_start(self._submit_sp.pid)
        super()._process_spark_submit_log(itr)


def _path_to(binary: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return `PATH` extended so that `binary` is found; an empty dict if the present PATH suffices.

    Raises ConfigurationError if `binary` is found nowhere. SPARK_HOME locates a user's own Spark. pip installs
    pyspark's `spark-submit` beside the interpreter, in a folder that may be missing from PATH. The driver then runs
    with that interpreter, which has RMQ, unless PYSPARK_PYTHON names another.
    """
    known = {**os.environ, **environment}
    path, home = known.get("PATH", os.defpath), known.get("SPARK_HOME")
    if shutil.which(binary, path=path):
        return {}
    folders = os.pathsep.join([*([f"{home}/bin"] if home else []), str(Path(sys.executable).parent)])
    if shutil.which(binary, path=folders):
        return {"PATH": f"{folders}{os.pathsep}{path}"}
    raise ConfigurationError(
        f"there is no `{binary}` on PATH, in {home or '$SPARK_HOME'}/bin or beside Python: run `pip install "
        "'rmq[airflow-spark]'`, which includes Spark (pyspark-client does not), or install Apache Spark on the worker "
        "and set SPARK_HOME"
    )
