"""The console of `rmq_core`, with what Airflow supplies: users and rights, connections, the audit log, tasks."""

from __future__ import annotations

from rmq_airflow.plugin.access import AirflowAccess
from rmq_airflow.plugin.audit import AirflowLog
from rmq_airflow.plugin.connections import Connections
from rmq_airflow.plugin.holders import holder_of
from rmq_core.console import Host, Words, create_app

ADD = (
    "Add a connection of type “Redis Queue” under Admin \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} Connections. If "
    "it is kept in the environment or in a secrets backend, name it in the configuration:"
)
WORDS = Words(
    server="Airflow's API server",
    no_numbers="you may not read this connection",
    no_messages="only users who may edit this connection can see and move its messages",
    no_change="only users who may edit this connection can see and move its messages",
    no_server="only users who may read this connection can see the reason, which may name its server",
    foreign="changes are accepted only from Airflow's own pages",
    hidden="There are queue connections, but you need permission to read them. Ask an administrator of this Airflow.",
    nothing=(ADD, "[rmq]\nconnections = redis_queue_default"),
    publish=(
        "A queue appears here when its first message is published. Publish one from a task:",
        'RedisQueuePublishOperator(task_id="publish", redis_queue="work", messages=["hello"])',
    ),
)

app = create_app(Host(AirflowAccess(), Connections(), AirflowLog(), holder_of, WORDS))
