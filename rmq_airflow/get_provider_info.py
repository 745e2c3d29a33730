"""The provider metadata that Airflow reads without importing the rest of the provider."""

from __future__ import annotations

from typing import Any

INTEGRATION = "Redis Work Queue (RMQ)"
OPERATORS = ("publish", "consume", "redrive", "check", "settle", "spark_submit")
DISCIPLINES = ("leased", "reliable", "rotation", "streams", "jobs")
TRIGGERS = ("sensor", "depth", "watcher", "shared_stream")


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, valid against Airflow's `provider_info.schema.json`.

    This function is an entry point of the distribution.
    """
    return {
        "package-name": "rmq",
        "name": INTEGRATION,
        "description": "A work queue on Redis, not RabbitMQ: wait for work, claim it under a lease, ack it in the task "
        "that did it.",
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "external-doc-url": "https://redis.io/",  # the service; the project has no public address yet
                "logo": "/integration-logos/rmq.svg",  # in docs, where Airflow's own providers have theirs
                "tags": ["software"],
            }
        ],
        "hooks": [_modules("hooks.queue", "hooks.spark")],
        "operators": [_modules(*(f"operators.{name}" for name in OPERATORS))],
        "task-decorators": [
            {"name": "redis_queue", "class-name": "rmq_airflow.decorators.redis_queue.redis_queue_task"}
        ],
        "sensors": [_modules("sensors.queue")],
        "triggers": [_modules(*(f"triggers.{name}" for name in TRIGGERS))],
        "queues": ["rmq_airflow.queues.redis_queue.RedisQueueMessageQueueProvider"],
        "notifications": ["rmq_airflow.notifications.queue.RedisQueueNotifier"],
        "extra-links": ["rmq_airflow.links.RedisQueueLink"],
        "asset-uris": [_asset_uri(name) for name in ("rmq", "rmq+sentinel", "rmq+cluster", "rmq+unix", "rmq+embedded")],
        "connection-types": [
            {
                "connection-type": "redis_queue",
                "hook-class-name": "rmq_airflow.hooks.queue.RedisQueueHook",
                "hook-name": "Redis Queue",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {"login": "User (ACL)"},
                    "placeholders": {"host": "redis.example", "port": "6379"},
                },
                "conn-fields": _connection_fields(),
            }
        ],
        # No "plugins": the entry point `airflow.plugins` already registers the page in every mode, and registering it
        # twice is an error.
        "config": {"rmq": {"description": "RMQ in the API server.", "options": _options()}},
    }


def _options() -> dict[str, Any]:
    return {
        "connections": _option(
            "string",
            "",
            'Comma-separated ids of connections that the page "Queues" shows beside those of type `redis_queue` in the '
            "metadata database. RMQ cannot list the connections of a secrets backend or of the environment: name those "
            "here, and connections of another type.",
            example="redis_queue_default,redis_queue_reports",
        ),
        "console": _option(
            "string",
            "",
            'The address of `rmq serve`, to which the links "Queue" of tasks lead; by default they lead to the page '
            '"Queues" of this Airflow. Set it for API servers and workers.',
            example="https://rmq.example.com",
            since="0.2.0",
        ),
        "numbers_for_all_users": _option(
            "boolean",
            "False",
            'Whether every logged-in user who may open the page "Queues" sees the queues of all connections: names, '
            "numbers, history and leases, but neither messages nor the server, and changes nothing. With False, "
            "this needs the right to read the connection. With `[core] multi_team`, users see those of their team.",
            since="0.2.0",
        ),
        "release_ended": _option(
            "boolean",
            "True",
            "Whether API servers release leases whose task has ended and will not be tried again: the task or its run "
            "was marked success, failed or skipped, or its run or DAG was deleted. With False, the messages wait until "
            "the lease expires.",
        ),
        "release_interval": _option(
            "float", "5", "How often, in seconds, each API server checks for such leases; at least 1."
        ),
    }


def _option(
    kind: str, default: str, description: str, example: str | None = None, *, since: str = "0.1.0"
) -> dict[str, Any]:
    said = {"type": kind, "default": default, "description": description, "example": example}
    return {**said, "version_added": since}


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": INTEGRATION, "python-modules": [f"rmq_airflow.{name}" for name in names]}


def _asset_uri(scheme: str) -> dict[str, Any]:
    module = "rmq_airflow.assets.queue"
    factory = {"factory": f"{module}.create_asset"} if scheme == "rmq" else {}  # the other schemes exist only as URIs
    return {
        "schemes": [scheme],
        "handler": f"{module}.sanitize_uri",
        "to_openlineage_converter": f"{module}.convert_asset_to_openlineage",
        **factory,
    }


def _connection_fields() -> dict[str, Any]:
    text, flag = {"type": ["string", "null"]}, {"type": ["boolean", "null"], "default": False}
    return {
        "url": _field(
            "URL",
            text,
            "Instead of host, port and database: sentinel://host1,host2/service, redis+cluster://host1,host2, "
            "unix:///path/to/redis.sock or embedded:///directory. User and password go into their own fields.",
        ),
        "db": _field("Database", {"type": ["integer", "null"], "minimum": 0}, "Number of the database, 0 by default."),
        "ssl": _field("TLS", flag, "Connect with TLS."),
        "ssl_ca_certs": _field("CA certificates", text, "File with the certificates to trust."),
        "ssl_certfile": _field("Client certificate", text, "File with this client's certificate."),
        "ssl_keyfile": _field("Client key", text, "File with this client's private key."),
        "ssl_password": _field("Client key password", {**text, "format": "password"}, ""),
        "ssl_cert_reqs": _field("Verify certificate", _choice("required", "optional", "none"), ""),
        "ssl_check_hostname": _field("Verify host name", {"type": ["boolean", "null"], "default": True}, ""),
        "sentinel_username": _field("Sentinel user", text, "Only if the sentinels require a user of their own."),
        "sentinel_password": _field("Sentinel password", {**text, "format": "password"}, ""),
        "discipline": _field(
            "Discipline",
            _choice(*DISCIPLINES),
            "The kind of queues. Tasks claim only from leased queues; with others they publish, wait and redrive.",
        ),
        "lease": _field(
            "Default lease",
            {"type": ["number", "null"], "minimum": 1},
            "Seconds; used if a DAG gives no queue_config. Only for leased queues, like the next field.",
        ),
        "max_deliveries": _field(
            "Deliveries before a message is dead",
            {"type": ["integer", "null"], "minimum": 1},
            "10 by default. Sensors that reclaim expired leases use this number, not that of a DAG's queue_config.",
        ),
        "traced": _field(
            "Traces", flag, "Make spans of OpenTelemetry for publish, claim and settle; Airflow exports them."
        ),
    }


def _choice(default: str, *others: str) -> dict[str, Any]:
    # No null in the enum: the form would show it as a choice named "null".
    return {"type": ["string", "null"], "enum": [default, *others], "default": default}


def _field(label: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"label": label, "schema": schema, **({"description": description} if description else {})}
