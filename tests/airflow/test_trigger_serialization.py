"""Every trigger serialises and describes all arguments of its constructor: Airflow recreates it from those."""

from __future__ import annotations

import inspect

import pytest
from airflow.triggers.base import BaseTrigger

from rmq_airflow.triggers.depth import RedisQueueDepthTrigger
from rmq_airflow.triggers.sensor import RedisQueuePublicationTrigger, RedisQueueTrigger
from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger
from tests.airflow.floor import BELOW_33

GIVEN = {"redis_queue": "work", "count": "dead", "publication": "report"}
TRIGGERS: list[type[BaseTrigger]] = [
    RedisQueueDepthTrigger,
    RedisQueueDoorbellTrigger,
    RedisQueuePublicationTrigger,
    RedisQueueTrigger,
]
if not BELOW_33:
    from rmq_airflow.triggers.shared_stream import RedisQueueSharedStreamTrigger

    TRIGGERS.append(RedisQueueSharedStreamTrigger)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_trigger_serialises_every_argument_it_takes(trigger: type[BaseTrigger]) -> None:
    arguments = inspect.signature(trigger).parameters.keys()
    made = trigger(**{name: value for name, value in GIVEN.items() if name in arguments})
    assert made.serialize()[1].keys() == arguments
