from __future__ import annotations

import os
import subprocess
import sys
import time
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_core import Lease, QueueUnavailable
from rmq_spark.batch.held import HeldBatch
from rmq_spark.batch.watch import LossWatch, _parent_of, _starters

LEASE = Lease("work", "lease-1", "me", 1, None, "7.token")


class Queue:
    """A queue whose `lease_info` returns what the test sets."""

    def __init__(self, info: Any) -> None:
        self.info = info

    def lease_info(self, lease_id: str) -> Any:
        if isinstance(self.info, Exception):
            raise self.info
        return self.info


def watch(info: Any, on_lost: Any = lambda: None) -> LossWatch:
    return LossWatch(HeldBatch(Queue(info), LEASE), on_lost, exit_driver=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("info", "gone"),
    [
        (SimpleNamespace(fence=7), False),
        (SimpleNamespace(fence=8), True),
        (None, True),
        (QueueUnavailable("Redis did not answer"), False),
    ],
    ids=["ours", "taken over", "reclaimed or settled", "not to be seen"],
)
def test_a_lease_with_another_fencing_token_is_lost(info: Any, *, gone: bool) -> None:
    seen = watch(info)
    assert (seen.gone() is LEASE) is gone
    seen.close()


def test_the_starter_of_a_driver_is_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert _starters() == (os.getppid(),)


def test_under_spark_submit_the_parent_of_the_java_process_is_a_starter_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert _starters() == (os.getppid(), _parent_of(os.getppid()))
    assert _parent_of(os.getpid()) == os.getppid()


def test_a_process_that_has_ended_has_no_parent() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert _parent_of(ended.pid) == 0


def test_a_loss_known_to_the_heartbeat_triggers_the_callback_while_redis_is_unreachable() -> None:
    acted = Event()
    seen = watch(QueueUnavailable("Redis did not answer"), acted.set)
    assert not seen.gone()
    seen.lose(LEASE)
    assert acted.is_set()
    assert seen.gone()
    seen.close()


def test_a_check_that_hangs_does_not_hide_an_approaching_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def lease_info(self, lease_id: str) -> Any:
            answered.wait()

    answered, acted = Event(), Event()
    monkeypatch.setattr("rmq_spark.batch.watch.MARGIN", 0.99)
    monkeypatch.setattr("rmq_spark.batch.watch.MOST_MARGIN_S", 1000)
    lease = Lease("work", "lease-1", "me", 1, None, "7.token")
    lease.state.until = time.monotonic() + 300
    seen = LossWatch(HeldBatch(Silent(), lease), acted.set, exit_driver=False)  # type: ignore[arg-type]
    assert acted.wait(60)
    assert seen.lost
    assert not lease.lost, "it acts before the lease expires"
    seen.close()  # and does not wait for Redis
    answered.set()


def test_a_cancellation_that_fails_is_tried_again() -> None:
    tried = []

    def cancel() -> None:
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("Spark does not answer")
        acted.set()

    acted = Event()
    seen = watch(None, cancel)
    assert acted.wait(60)
    seen.close()
