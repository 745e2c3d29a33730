"""Everything that the provider declares exists and is documented."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator, task

from rmq_airflow.get_provider_info import get_provider_info

DOCS = Path(__file__).parents[2] / "docs"
INFO = get_provider_info()
OPERATORS = [*INFO["operators"][0]["python-modules"], *INFO["sensors"][0]["python-modules"]]


def test_the_task_decorator_is_registered_under_its_name() -> None:
    assert callable(task.redis_queue)


def operators() -> list[Any]:
    classes = [
        cls for name in OPERATORS for _, cls in inspect.getmembers(importlib.import_module(name), inspect.isclass)
    ]
    return [cls for cls in classes if issubclass(cls, BaseOperator) and cls.__name__.startswith("RedisQueue")]


@pytest.mark.parametrize("operator", operators(), ids=lambda operator: operator.__name__)
def test_every_operator_points_to_a_guide_that_has_its_anchor(operator: Any) -> None:
    (anchor,) = re.findall(r":ref:`(howto/operator:\w+)`", operator.__doc__)
    assert anchor == f"howto/operator:{operator.__name__}"
    guides = "".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert f'<a id="{anchor}"></a>' in guides


@pytest.mark.parametrize("operator", operators(), ids=lambda operator: operator.__name__)
def test_no_templated_field_is_changed_before_it_is_rendered(operator: Any) -> None:
    given = {"redis_queue": "{{ ds }}", "redis_queue_conn_id": "{{ conn }}", "hand_over": {"queue": "{{ ds }}"}}
    fitting = {name: value for name, value in given.items() if name in operator.template_fields}
    needed = {"messages": ["{{ ds }}"], "on_message": print, "application": "job.py"}
    fitting |= {name: value for name, value in needed.items() if name in inspect.signature(operator).parameters}
    made = operator(task_id="t", **fitting)
    assert {name: getattr(made, name) for name in fitting if name in operator.template_fields} == {
        name: value for name, value in fitting.items() if name in operator.template_fields
    }
