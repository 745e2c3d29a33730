"""The Spark provider's submit hook with a driver that can be given secrets, and that can be stopped.

Law: what is in `secrets` reaches the driver through its process environment and nothing else: no argument, no Spark
configuration, no log line. `env_vars` would not do: on YARN and Kubernetes the provider turns those into `--conf`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook


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
    """A PATH on which `binary` is found: pip puts `spark-submit` beside the interpreter, where PATH need not lead."""
    path = environment.get("PATH", os.environ.get("PATH", os.defpath))
    beside = Path(sys.executable).parent
    if shutil.which(binary, path=path) or not (beside / binary).exists():
        return {}
    return {"PATH": f"{beside}{os.pathsep}{path}"}
