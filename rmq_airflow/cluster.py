"""Spark's cluster mode: the driver runs on YARN or Kubernetes, and learns there which lease it is to adopt.

Law: no credential stands in a command line, in a pod's description or on a page. On YARN they go into a properties file
of mode 0600 that ends with `spark-submit`; on Kubernetes the user names a Secret. Where neither works nothing is sent.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark import __version__ as PROVIDER  # noqa: N812  a constant
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException

from rmq_airflow.hooks.spark import LeasedSparkSubmitHook
from rmq_core import ConfigurationError, RedisSettings
from rmq_core.work import Handover

SECRET_REFERENCE = "spark.kubernetes.driver.secretKeyRef"  # noqa: S105  the name of a property
_ENVIRONMENT = {"yarn": "spark.yarn.appMasterEnv", "kubernetes": "spark.kubernetes.driverEnv"}
_TRACKED = (
    "`deploy_mode='cluster'` (in the operator, or `deploy-mode` in the extra of the Spark connection) needs a driver "
    "that can be found again: set `yarn_track_via_rm_api=True` for YARN or `track_driver_via_k8s_api=True` for "
    "Kubernetes"
)
_TRACKS = tuple(map(int, PROVIDER.split(".")[:2])) >= (6, 1)
_SINCE_6_1 = (
    "durable",
    "reconnect_on_retry",
    "yarn_track_via_rm_api",
    "yarn_rm_auth",
    "track_driver_via_k8s_api",
    "post_submit_commands",
)


class ClusterSubmitHook(LeasedSparkSubmitHook):
    """A configured provider's hook whose driver finds what it was handed in its environment, wherever it runs.

    Of the processes here `on_start` hears of `spark-submit`'s alone. ConfigurationError for a platform where the driver
    could not be watched.
    """

    def __init__(self, hook: SparkSubmitHook, on_start: Callable[[int], None]) -> None:
        super().__init__(hook, {}, on_start)
        self._conf = dict(self._conf)  # what is added is not for the operator's rendered fields
        self._handover: Handover | None = None
        self.platform = self._find_platform()

    def hand_over(self, handover: Handover, environment: Mapping[str, str]) -> None:
        """What the driver is to find, and what `spark-submit` itself needs in its environment."""
        self._handover, self._secrets = handover, environment

    @property
    def job(self) -> str | None:
        """The driver's id as the provider's operator knows it; None before there is one."""
        if self.platform == "yarn":
            return self._yarn_application_id
        pod = self._kubernetes_driver_pod
        return pod and f"{self._connection['namespace']}:{pod}"

    def attach(self, job: str) -> None:
        """A driver that was submitted before; reconnecting, the provider forgets to say what there is to kill."""
        if self.platform == "yarn":
            self._yarn_application_id = job
        else:
            self._kubernetes_driver_pod = job.partition(":")[2]

    def check_secrets(self, settings: RedisSettings) -> None:
        """ConfigurationError when the credentials could reach a driver only where others see them."""
        if self.platform != "kubernetes":
            return
        missing = [name for name in _secrets(settings) if f"{SECRET_REFERENCE}.{name}" not in self._conf]
        if missing:
            raise ConfigurationError(
                f"on Kubernetes `conf` must say which Secret holds {' and '.join(missing)}: "
                f"{{'{SECRET_REFERENCE}.{missing[0]}': '<name of the Secret>:<key>'}}"
            )

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run `spark-submit`, which returns when the platform has the driver; AirflowException when it fails."""
        if self._handover is None:
            raise ConfigurationError("nothing was handed over; call `hand_over` first")
        with self._handing_over(self._handover):
            return super().submit(application, **kwargs)

    def _find_platform(self) -> str:
        if self._is_yarn and getattr(self, "_yarn_track_via_rm_api", False):
            return "yarn"
        if self._is_kubernetes and getattr(self, "_track_driver_via_k8s_api", False):
            return "kubernetes"
        if not _TRACKS:
            raise ConfigurationError(_too_old(f"cluster mode, of the extra of connection {self._conn_id!r},"))
        raise ConfigurationError(f"connection {self._conn_id!r} leads to {self._connection['master']}: {_TRACKED}")

    @contextmanager
    def _handing_over(self, handover: Handover) -> Iterator[None]:
        prefix = _ENVIRONMENT[self.platform]
        given = {f"{prefix}.{name}": value for name, value in handover.environment().items()}
        if self.platform == "kubernetes":
            secret = {f"{prefix}.{name}" for name in _secrets(handover.settings)}
            self._conf |= {name: value for name, value in given.items() if name not in secret}
            yield
            return
        named = self._properties_file
        try:
            with tempfile.TemporaryDirectory(prefix="rmq-spark-") as folder:
                self._properties_file = str(write_properties(Path(folder), given, named))
                yield
        finally:
            self._properties_file = named

    def _poll_k8s_driver_via_api(self) -> str | None:
        # The provider takes a pod that was deleted for no failure. For messages it is one.
        phase: str | None = super()._poll_k8s_driver_via_api()
        if phase != "Succeeded":
            raise AirflowException(
                f"The driver's pod {self._kubernetes_driver_pod} is gone; nobody knows how it ended."
            )
        return phase


def in_cluster_mode(hook: SparkSubmitHook) -> bool:
    """Whether the driver will run elsewhere, by the operator or by the Spark connection."""
    return bool(hook._connection["deploy_mode"] == "cluster")  # noqa: SLF001  the provider's operator asks so too


def supported(options: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's options for the Spark provider that is installed: without those it lacks and that ask for nothing.

    ConfigurationError for one that asks for something.
    """
    if _TRACKS:
        return dict(options)
    for name in _SINCE_6_1:
        if options.get(name):
            raise ConfigurationError(_too_old(f"`{name}`"))
    if options.get("deploy_mode") == "cluster":
        raise ConfigurationError(_too_old("`deploy_mode='cluster'`"))
    return {name: value for name, value in options.items() if name not in _SINCE_6_1}


def check_cluster_mode(options: Mapping[str, Any]) -> None:
    """ConfigurationError, when the DAG is parsed, for a cluster mode that cannot work; `options` are the operator's."""
    if options.get("deploy_mode") != "cluster" or _tracked(options):
        return
    if str(options.get("application", "")).endswith(".py"):
        raise ConfigurationError(f"Spark's standalone cluster mode runs no Python files; {_TRACKED}")
    raise ConfigurationError(_TRACKED)


def write_properties(folder: Path, properties: Mapping[str, str], after: str | None = None) -> Path:
    """A file that only this user can read, with what the file `after` says and `properties`."""
    path = folder / "spark.properties"
    lines = [f"{name}={_escaped(value)}" for name, value in properties.items()]
    before = Path(after).read_text("utf-8").splitlines() if after else []
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join([*before, *lines, ""]))
    return path


def _too_old(what: str) -> str:
    return (
        f"{what} needs apache-airflow-providers-apache-spark from 6.1 on, and {PROVIDER} is installed, as "
        "`rmq[airflow-spark]` brings it: install `rmq[airflow]`, the provider without an extra of ours, and Apache "
        "Spark apart from Python (SPARK_HOME)"
    )


def _secrets(settings: RedisSettings) -> list[str]:
    """The variables that hold passwords. The user's name is none, and may be needed to find out why a login fails."""
    found = Handover(settings, "", "", "").environment()
    return [name for name in found if name.endswith("PASSWORD")]


def _tracked(options: Mapping[str, Any]) -> bool:
    return bool(options.get("yarn_track_via_rm_api") or options.get("track_driver_via_k8s_api"))


def _escaped(value: str) -> str:
    """As Java reads it back from a properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped[:1].isspace() else escaped
