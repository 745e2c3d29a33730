"""Airflow on CeleryExecutor: two workers, two schedulers and two triggerers, each with its own host name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import psycopg2
from celery import Celery
from redis.exceptions import RedisError

from tests.faults.airflow.deployment import Deployment
from tests.faults.airflow.scene import PATIENCE_S, Scene, World
from tests.faults.airflow.wire import Wire
from tests.servers import Server, start_server
from tests.servers.postgres import Postgres, running_postgres
from tests.servers.process import until

WORKERS = "worker-1", "worker-2"
SCHEDULERS = "scheduler-1", "scheduler-2"
TRIGGERERS = "triggerer-1", "triggerer-2"
INSTANCES = {
    "api-server": "api-server",
    "dag-processor": "dag-processor",
    **dict.fromkeys(WORKERS, "celery"),
    **dict.fromkeys(SCHEDULERS, "scheduler"),
    **dict.fromkeys(TRIGGERERS, "triggerer"),
}
QUEUED_S = 60
"""How long the scheduler waits for a worker to begin a task before it queues the task again: `task_queued_timeout`."""
SOFT_S = 5
"""How long a worker that got SIGQUIT lets its tasks go on: Celery's `worker_soft_shutdown_timeout`."""
DEFAULT, UNACKED = "default", "unacked_index"
"""Keys of the broker: tasks that wait for a worker, and when each of the others was delivered to one."""
OF_TASK = "t.dag_id = %s and t.run_id = %s and t.task_id = %s"
HOSTS = {
    "worker": f"select t.hostname from task_instance t where {OF_TASK}",
    "scheduler": f"select j.hostname from task_instance t join job j on j.id = t.queued_by_job_id where {OF_TASK}",
    "triggerer": "select j.hostname from task_instance t join trigger g on g.id = t.trigger_id"
    f" join job j on j.id = g.triggerer_id where {OF_TASK}",
}
"""The queries for the instance of each part that has a task."""


class Cluster(NamedTuple):
    """The parts that faults hit; `world` has Airflow and the Redis of the queues."""

    world: World
    broker: Server
    database: Postgres

    def host(self, part: str, scene: Scene) -> str:
        """Return the name of the worker, scheduler or triggerer that has the task of a scene."""
        with closing(psycopg2.connect(self.database.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(HOSTS[part], (*scene.run, scene.victim))
            found = cursor.fetchone()
        assert found, (part, scene.name, scene.task())
        return str(found[0])

    def let_work(self, *workers: str) -> None:
        """Let only these workers get tasks from now on; those that they have go on."""
        with Celery(broker=self.broker.url) as app:
            for worker in WORKERS:
                change = app.control.add_consumer if worker in workers else app.control.cancel_consumer
                _obeyed(change, worker)

    def waiting(self) -> int:
        """Return how many tasks wait in the broker for a worker."""
        with self.broker.client() as client:
            return int(client.llen(DEFAULT))

    def deliver_again(self) -> None:
        """Let the `visibility_timeout` of every task that workers have pass; return once they have them again."""
        with self.broker.client() as client:
            client.zadd(UNACKED, dict.fromkeys(client.zrange(UNACKED, 0, -1), 1), xx=True)
            until(lambda: not client.zcount(UNACKED, 1, 1), PATIENCE_S, pace_s=1)

    def start(self, name: str, **environment: str) -> None:
        """Start an instance again."""
        self.world.airflow.start(INSTANCES[name], name, **environment)


def _obeyed(change: Callable[..., object], worker: str) -> None:
    """Repeat a command until the worker says that it has done it: the worker may be starting, or connecting again."""

    def obeys() -> bool:
        with suppress(RedisError):  # Celery keeps connections to a broker that was killed since
            return bool(change(DEFAULT, destination=[f"celery@{worker}"], reply=True, timeout=5))
        return False

    until(obeys, PATIENCE_S, pace_s=1)


class Flow(Scene):
    """A run that publishes, waits and consumes without standing still."""

    def begin(self) -> None:
        self.ledger.open_gate()
        self.world.airflow.rest.trigger(*self.run, {"queue": self.name})

    def reach(self) -> None:
        """The first task has begun; nothing holds it up."""
        until(lambda: self.world.airflow.rest.tasks(*self.run)["publish"].pid, PATIENCE_S, pace_s=1)


class Queued(Scene):
    """A run whose task waits in the broker, because no worker gets tasks."""

    def __init__(self, cluster: Cluster, fault: str) -> None:
        super().__init__(cluster.world, f"{fault}-queued", "consume", timed=False)
        self.cluster = cluster

    def reach(self) -> None:
        until(lambda: self.cluster.waiting() and self.task().state == "queued", PATIENCE_S, pace_s=0.5)


@contextmanager
def running_cluster(environment: Mapping[str, str], redis: Server, wire: Wire) -> Iterator[Cluster]:
    """Yield the cluster once two workers work; its queues are in `redis`."""
    broker = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    with running_postgres() as database:
        airflow = Deployment(database, {**environment, **_options(broker, database)}, instances=INSTANCES)
        cluster = Cluster(World(airflow, redis, wire), broker, database)
        cluster.let_work(*WORKERS)
        yield cluster
        airflow.stop()
    broker.stop()


def _options(broker: Server, database: Postgres) -> dict[str, str]:
    options = {
        "CORE__EXECUTOR": "CeleryExecutor",
        "CORE__HOSTNAME_CALLABLE": "tests.faults.airflow.hosts.hostname",
        "CELERY__BROKER_URL": broker.url,
        "CELERY__RESULT_BACKEND": f"db+postgresql+psycopg2://rmq@127.0.0.1:{database.port}/postgres",
        "CELERY__EXTRA_CELERY_CONFIG": f'{{"worker_soft_shutdown_timeout": {SOFT_S}}}',
        "SCHEDULER__TASK_QUEUED_TIMEOUT": str(QUEUED_S),
        "SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
    }
    return {f"AIRFLOW__{name}": value for name, value in options.items()}


def scenes_of(cluster: Cluster, fault: str, states: Sequence[str]) -> list[Scene]:
    """Return a scene for each state; a state that is named several times has several."""
    return [_scene(cluster, f"{fault}-{number}", state) for number, state in enumerate(states)]


def _scene(cluster: Cluster, name: str, state: str) -> Scene:
    if state == "queued":
        return Queued(cluster, name)
    return (Flow if state == "flow" else Scene)(cluster.world, name, state, timed=False)
