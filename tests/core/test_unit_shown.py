"""What `help` shows for the methods of queues."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import pytest

import rmq_core
import rmq_core.asyncio
from rmq_core.kernel.base import Shown

QUEUES = [
    found
    for module in (rmq_core, rmq_core.asyncio)
    for name in module.__all__
    if isinstance(found := getattr(module, name), type) and hasattr(found, "publish_many")
]
METHODS = [
    pytest.param(method, id=f"{queue.__module__}.{queue.__name__}.{name}")
    for queue in QUEUES
    for name, method in vars(queue).items()
    if isinstance(vars(method).get("__wrapped__") if inspect.isfunction(method) else None, Shown)
]


@pytest.mark.parametrize("method", METHODS)
def test_help_shows_the_public_signatures(method: Any) -> None:
    first, *others = inspect.signature(method).parameters.values()
    assert (first.name, first.annotation) == ("self", inspect.Parameter.empty)
    assert "engine" not in {one.name for one in others}
    sentence = (inspect.getdoc(method) or "").partition("\n")[0]
    shown = pydoc.render_doc(method, renderer=pydoc.plaintext).partition(sentence)[0]
    text = "".join(line.strip() for line in shown.splitlines()[2:])  # from 3.13 on, a line for each parameter
    assert text.startswith(f"{method.__name__}(self")
    assert "Exchange" not in text
    assert "Engine" not in text
    assert "Generator" not in text


def test_methods_of_the_sync_and_of_the_async_queues_are_found() -> None:
    assert len(METHODS) > 100
    assert {queue.__module__.rpartition(".")[2] for queue in QUEUES} >= {"queue", "aio"}
