"""Spark's cluster mode: the driver outlives the task that submitted it, and the next try finds it.

Law: no credential appears in a command line, in a pod's description or on a web page. On YARN, credentials go into a
properties file of mode 0600, which is deleted when `spark-submit` ends. On Kubernetes, the user names a Secret. If
neither is possible, nothing is submitted.

While the driver of an earlier try runs, or if it has succeeded, it keeps its lease and the new try only watches; a
takeover would fence off a driver that works correctly. A driver that has lost its lease is stopped. Before a driver is
submitted, the data that the next try needs is written to Airflow's task state store: the lease without its token.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark import __version__ as PROVIDER
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, Context

from rmq_airflow.hooks.spark import LeasedSparkSubmitHook
from rmq_airflow.identity import TaskIdentity
from rmq_core import ConfigurationError, Lease, LeasedQueue, RedisSettings
from rmq_core.orchestrate import Handover, Submission

SECRET_REFERENCE = "spark.kubernetes.driver.secretKeyRef"  # noqa: S105  the name of a property
_ENVIRONMENT = {"yarn": "spark.yarn.appMasterEnv", "kubernetes": "spark.kubernetes.driverEnv"}
_TRACKED = (
    "`deploy_mode='cluster'` (in the operator, or `deploy-mode` in the extra of the Spark connection) works only if "
    "Airflow can track the driver: set `yarn_track_via_rm_api=True` for YARN or `track_driver_via_k8s_api=True` for "
    "Kubernetes"
)
_TRACKS = tuple(map(int, PROVIDER.split(".")[:2])) >= (6, 1)
_SINCE_6_1 = (
    "durable", "reconnect_on_retry", "yarn_track_via_rm_api", "yarn_rm_auth", "track_driver_via_k8s_api",
    "post_submit_commands",
)  # fmt: skip


class ClusterSubmitHook(LeasedSparkSubmitHook):
    """A configured hook of the provider that puts the handover into the environment of the remote driver.

    `on_start` is called only for the local process group, that of `spark-submit`. Raises ConfigurationError for a
    platform on which the driver cannot be watched.
    """

    def __init__(self, hook: SparkSubmitHook, on_start: Callable[[int], None]) -> None:
        super().__init__(hook, {}, on_start)
        self._conf = dict(self._conf)  # a copy: additions must not appear in the operator's rendered fields
        self._handover: Handover | None = None
        self.platform = self._find_platform()

    def hand_over(self, handover: Handover, environment: Mapping[str, str]) -> None:
        """Set the handover for the driver, and the environment variables that `spark-submit` itself needs."""
        self._handover, self._secrets = handover, environment

    @property
    def job(self) -> str | None:
        """Return the driver's id in the form that the provider's operator uses; None before there is one."""
        if self.platform == "yarn":
            return self._yarn_application_id
        pod = self._kubernetes_driver_pod
        return pod and f"{self._connection['namespace']}:{pod}"

    def attach(self, job: str) -> None:
        """Set the id of a driver that an earlier try submitted, so that it can be killed.

        On reconnect, the provider does not set the id itself.
        """
        if self.platform == "yarn":
            self._yarn_application_id = job
        else:
            self._kubernetes_driver_pod = job.partition(":")[2]

    def check_secrets(self, settings: RedisSettings) -> None:
        """Raise ConfigurationError if the credentials could reach the driver only in a way that exposes them."""
        if self.platform != "kubernetes":
            return
        missing = [name for name in _secrets(settings) if f"{SECRET_REFERENCE}.{name}" not in self._conf]
        if missing:
            raise ConfigurationError(
                f"on Kubernetes, `conf` must name the Secret that holds {' and '.join(missing)}: "
                f"{{'{SECRET_REFERENCE}.{missing[0]}': '<name of the Secret>:<key>'}}"
            )

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run `spark-submit`, which returns once the platform has accepted the driver.

        Raises AirflowException if it fails.
        """
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
            raise ConfigurationError(_too_old(f"cluster mode, set by connection {self._conn_id!r},"))
        raise ConfigurationError(f"connection {self._conn_id!r} submits to {self._connection['master']}: {_TRACKED}")

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
        # The provider does not treat a deleted pod as a failure. Here it is one: its messages may be unprocessed.
        phase: str | None = super()._poll_k8s_driver_via_api()
        if phase != "Succeeded":
            raise AirflowException(
                f"The driver's pod {self._kubernetes_driver_pod} no longer exists; its result is unknown."
            )
        return phase


def in_cluster_mode(hook: SparkSubmitHook) -> bool:
    """Return whether the operator or the Spark connection selects cluster mode."""
    return bool(hook._connection["deploy_mode"] == "cluster")  # noqa: SLF001  the provider's operator reads it too


def supported(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the operator's options without those that the installed Spark provider does not know.

    Raises ConfigurationError if such an option is set to a true value, or if cluster mode is not supported.
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
    """Raise ConfigurationError if the operator's `options` select a cluster mode that cannot work.

    Called while the DAG is parsed.
    """
    tracked = options.get("yarn_track_via_rm_api") or options.get("track_driver_via_k8s_api")
    if options.get("deploy_mode") != "cluster" or tracked:
        return
    if str(options.get("application", "")).endswith(".py"):
        raise ConfigurationError(f"Spark's standalone cluster mode runs no Python files; {_TRACKED}")
    raise ConfigurationError(_TRACKED)


def write_properties(folder: Path, properties: Mapping[str, str], after: str | None = None) -> Path:
    """Write a file that only this user can read: the lines of the file `after`, then `properties`. Return its path."""
    path = folder / "spark.properties"
    lines = [f"{name}={_escaped(value)}" for name, value in properties.items()]
    before = Path(after).read_text("utf-8").splitlines() if after else []
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join([*before, *lines, ""]))
    return path


def _too_old(what: str) -> str:
    return (
        f"{what} needs apache-airflow-providers-apache-spark 6.1 or later, but {PROVIDER} is installed; "
        "`rmq[airflow-spark]` installs an older version. Install `rmq[airflow]`, then the provider by itself, and "
        "Apache Spark separately from Python (set SPARK_HOME)"
    )


def _secrets(settings: RedisSettings) -> list[str]:
    """Return the names of the variables that hold passwords.

    The user name is not treated as a secret: it may be needed to find out why a login fails.
    """
    found = Handover(settings, "", "", "").environment()
    return [name for name in found if name.endswith("PASSWORD")]


def _escaped(value: str) -> str:
    """Escape a value so that Java reads it back unchanged from a properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped[:1].isspace() else escaped


LEASE_KEY = "rmq_lease"


class RemoteDriver:
    """The driver of one task instance, whichever try submitted it.

    Needs the task state store of Airflow 3.3 and the operator's `durable`. Without them every try submits its own
    driver, and the fence stops the previous driver. `stop` asks the platform to end the driver.
    """

    def __init__(
        self, operator: SparkSubmitOperator, hook: ClusterSubmitHook, stop: Callable[[], None], context: Context
    ) -> None:
        self._operator, self._hook, self._context = operator, hook, context
        self.stop = stop
        durable = getattr(operator, "durable", False)
        self._store: Any = context.get("task_state_store") if durable else None

    def resume(self, queue: LeasedQueue) -> Submission | None:
        """Return the submission of an earlier try if its driver runs or has succeeded; otherwise None.

        Exceptions of the platform's API propagate: it is then unknown whether the driver runs.
        """
        job, known = self._get(self._operator.external_id_key), self._get(LEASE_KEY)
        if job is None or known is None:
            return None
        status = self._operator.get_job_status(job, self._context)
        active = self._operator.is_job_active(status)
        if not active and not self._operator.is_job_succeeded(status):
            return None
        lease = Lease.from_json(known["lease"])
        if not TaskIdentity.of(self._context).follows(lease.owner):
            return None
        submission = Submission.resumed(queue, lease, known["fence"])
        if submission is not None:
            self._operator.log.info("Driver %s of an earlier try is %s; watching it.", job, status)
            self._remember(queue, submission)
            self._hook.attach(job)
        elif active and queue.settled(lease.id) is None:
            self._operator.log.warning("Driver %s has lost lease %s; stopping it.", job, lease.id)
            self._hook.attach(job)
            self.stop()
        return submission

    def begin(self, queue: LeasedQueue, submission: Submission) -> None:
        """Prepare the task state store before a driver is submitted.

        Delete the state of an earlier driver, because it does not describe the messages of the new one.
        """
        for key in (self._operator.external_id_key, getattr(self._operator, "_K8S_DRIVER_STATUS_KEY", None)):
            if key is not None and self._get(key) is not None:
                self._store.delete(key)
        self._remember(queue, submission)

    def leave(self, queue: LeasedQueue, submission: Submission, keep_s: float) -> bool:
        """After a failure of this try, return whether its driver still runs and the next try will find it.

        If the driver has not adopted the lease yet, keep the lease for `keep_s` seconds. Raises LeaseLost if the lease
        is lost.
        """
        if self._store is None or not self._goes_on():
            return False
        submission.poll()
        if not submission.adopted:
            submission.keep(keep_s)
            self._remember(queue, submission)
        return True

    def end(self) -> None:
        """Stop a running driver that no try will watch. Leave an ended one in place, so that its logs stay readable."""
        if self._goes_on():
            self.stop()

    def _goes_on(self) -> bool:
        """Return whether the driver still runs; also True if the platform gives no answer."""
        job = self._hook.job
        if job is None:
            return False
        try:
            return self._operator.is_job_active(self._operator.get_job_status(job, self._context))
        except Exception:  # each platform's client raises its own exception classes
            return True

    def _remember(self, queue: LeasedQueue, submission: Submission) -> None:
        """Store for the next try the driver's lease and its fence: a different fence means that the driver adopted."""
        info = None if self._store is None or submission.adopted else queue.lease_info(submission.lease.id)
        if info is not None:
            self._store.set(LEASE_KEY, {"lease": submission.lease.to_json(), "fence": info.fence})

    def _get(self, key: str) -> Any:
        return None if self._store is None else self._store.get(key)
