from __future__ import annotations

import inspect

import pytest

from rmq_core import LeasedConfig, LeasedQueue, Unsupported, WorkQueue, asyncio, open_queue
from rmq_core.protocol import DISCIPLINES, AsyncWorkQueue, Capabilities, require

NOWHERE = "redis://127.0.0.1:1"


def blocking() -> WorkQueue:
    return LeasedQueue(NOWHERE, "q")


@pytest.mark.parametrize("method", ["publish", "publish_many"])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_discipline_has_the_publish_keywords_of_the_protocol(discipline: str, method: str) -> None:
    def keywords(queue: object) -> set[str]:
        parameters = inspect.signature(getattr(queue, method)).parameters.values()
        return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}

    wanted = keywords(WorkQueue)
    assert wanted >= {"dedup_key", "delay", "headers"}
    assert keywords(AsyncWorkQueue) == wanted
    for queue in (open_queue(NOWHERE, "q", discipline), asyncio.open_queue(NOWHERE, "q", discipline)):
        assert keywords(queue) >= wanted


def test_a_queue_is_opened_by_the_name_of_its_discipline() -> None:
    config = LeasedConfig(lease=7)
    queue = open_queue(NOWHERE, "q", config=config)
    assert (type(queue), queue.name, queue.discipline) == (LeasedQueue, "q", "leased")
    assert isinstance(asyncio.open_queue(NOWHERE, "q"), AsyncWorkQueue)


def test_a_component_refuses_a_queue_without_a_capability_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    require(blocking(), "a job", "takeover", "extend")
    monkeypatch.setattr(LeasedQueue, "capabilities", Capabilities())
    with pytest.raises(Unsupported, match=r"'leased' has no takeover \(needed by a job\)"):
        require(blocking(), "a job", "takeover")
