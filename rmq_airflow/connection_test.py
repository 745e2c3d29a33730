"""Test a connection and report the result in words.

Law: a test changes nothing, on the server or on the local machine: an embedded server is neither started nor created.
"""

from __future__ import annotations

import time
from contextlib import closing
from difflib import get_close_matches
from typing import Any

from rmq_core import ConfigurationError, RedisSettings
from rmq_core.errors import translated

MINIMUM_VERSION = (6, 2)
CLOCK_TOLERANCE_S = 5.0


def examine(settings: RedisSettings) -> tuple[bool, str]:
    """Return whether the server can keep queues, and a description of the findings.

    Raises RedisMessageQueueError if no server answers.
    """
    if settings.scheme == "embedded":
        return True, (
            f"The connection can be read; nothing was started or created. A task that uses it starts a private server "
            f"in {settings.path} of the machine it runs on, and shares it with the tasks of that machine alone."
        )
    client: Any = settings.client()
    with closing(client), translated():
        if settings.scheme == "sentinel":
            _check_service(settings.service, client.connection_pool.sentinel_manager)
        return _ask(client)


def _check_service(service: str, manager: Any) -> None:
    """Raise ConfigurationError if the sentinels do not know `service`.

    Return if no sentinel answers: the next call to the server reports that.
    """
    from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004  redis-py's names; slow to load

    for sentinel in manager.sentinels:
        try:
            known = sorted(sentinel.sentinel_masters())
        except (ConnectionError, TimeoutError):
            continue
        if service not in known:
            near = get_close_matches(service, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else "."
            watched = ", ".join(map(repr, known)) or "nothing"
            raise ConfigurationError(
                f"url: the sentinels know no service {service!r}, they watch {watched}{meant} Write the name into the "
                "URL: sentinel://host1,host2/name"
            )
        return


def _ask(client: Any) -> tuple[bool, str]:
    client.ping()
    version = str(client.info("server")["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_VERSION:
        return False, f"the server is Redis {version}; RMQ needs 6.2 or later"
    if client.eval("return 'scripts'", 0) not in (b"scripts", "scripts"):
        return False, "the server does not run Lua scripts; allow @scripting to this user"
    return _compare_clocks(client, version)


def _compare_clocks(client: Any, version: str) -> tuple[bool, str]:
    seconds, microseconds = client.time()
    apart = abs(time.time() - (seconds + microseconds / 1e6))
    if apart > CLOCK_TOLERANCE_S:
        return False, f"the clocks of this machine and the server are {apart:.0f} s apart; run NTP on both"
    return True, f"Redis {version} answers, runs scripts, and its clock is {apart:.1f} s apart from this machine's"
