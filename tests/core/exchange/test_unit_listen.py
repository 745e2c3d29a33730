"""Commands that block in Redis and whose reply is the result."""

from __future__ import annotations

import socket
import threading

import pytest
import redis
from redis import exceptions as errors

from rmq_core.exchange import Listen
from rmq_core.exchange.frames import Frame, at_once
from rmq_core.exchange.sync import _listen

WANT = Listen(("XREAD", "COUNT", 1, "BLOCK", 250, "STREAMS", b"s", "0"), 250)


def test_a_client_that_cannot_block_reads_without_blocking() -> None:
    assert at_once(Frame(WANT.args)).args == ("XREAD", "COUNT", 1, "STREAMS", b"s", "0")
    assert at_once(Frame(("BLPOP", b"alarm", "5.000"))).args == ("LPOP", b"alarm")


def test_a_connection_that_another_thread_closes_meanwhile_is_a_lost_connection() -> None:
    """As when a program closes its client while a heartbeat waits for a reply."""
    ours, theirs = socket.socketpair()
    connection = redis.Connection()
    connection._sock = ours
    connection._parser.on_connect(connection)
    closer = threading.Timer(0.05, connection.disconnect)
    closer.start()
    with theirs, pytest.raises(errors.ConnectionError):
        _listen(connection, 10_000, None)
    closer.join()
