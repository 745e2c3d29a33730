"""A keyword of publishing that the protocol has is one of everything that publishes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_cli.publish import publish
from rmq_core import LeasedQueue, NewMessage, WorkQueue
from rmq_dagster import RedisQueueResource

WORDS = {"headers": "header"}  # of the command line, whose option is repeated


def parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


WANTED = parameters(WorkQueue.publish_many) - {"self", "payloads"}


@pytest.mark.parametrize("publisher", [RedisQueuePublishOperator.__init__, RedisQueueResource.publish])
def test_orchestrators_take_the_keywords_of_publishing(publisher: Callable[..., Any]) -> None:
    assert WANTED - parameters(publisher) == set()


def test_the_command_line_has_an_option_for_each() -> None:
    assert {WORDS.get(name, name) for name in WANTED} - parameters(publish) == set()


def test_staging_takes_them_and_a_message_can_have_its_own() -> None:
    assert WANTED - parameters(LeasedQueue.stage) == {"delay"}
    assert WANTED - set(NewMessage._fields) == set()
