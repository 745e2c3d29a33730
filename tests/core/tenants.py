"""A Redis user with exactly the documented permissions for some queues."""

from __future__ import annotations

import redis

from rmq_cli.doctor_checks import needed

USER, PASSWORD = "tenant", "pw"
OPTIONAL = {"client|setinfo", "info", "config|get", "config", "client|list", "client", "acl|whoami", "acl"}
"""What redis-py and `rmq doctor` try and can do without."""


def grant(client: redis.Redis, discipline: str, *queues: str, in_shards: bool = False) -> None:
    """Make the user, with the permissions for these queues alone."""
    client.execute_command("ACL", "SETUSER", USER, "reset", "resetchannels", "on", f">{PASSWORD}")
    for queue in queues:
        for rule in needed(discipline, queue, in_shards=in_shards).rules.split():
            try:
                client.execute_command("ACL", "SETUSER", USER, rule)
            except redis.ResponseError as error:
                if "Unknown command" not in str(error):  # some servers lack commands of later ones
                    raise
    client.execute_command("ACL", "LOG", "RESET")


def denied(client: redis.Redis) -> list[str]:
    """Return what Redis refused to the user since `grant`, except what redis-py and `rmq doctor` may do without."""
    lines = client.execute_command("ACL", "LOG")
    found = [line if isinstance(line, dict) else dict(zip(line[::2], line[1::2], strict=True)) for line in lines]
    return sorted({line[b"object"].decode() for line in found} - OPTIONAL)
