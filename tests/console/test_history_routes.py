"""The history of a queue, its marks, and the timeline of a message."""

from __future__ import annotations

import time

import httpx
import pytest

from rmq_core import LeasedQueue, open_queue
from tests.console.conftest import API, QUEUE, bury, fetch, post


async def test_the_history_counts_what_happened_minute_by_minute(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    bury(queue, "bad")
    queue.publish_many(["x", "y"])
    queue.close()
    found = await fetch(page, "history")
    columns = found["columns"]
    assert (found["seconds"], len(columns["at"])) == (60, 60)
    assert [sum(columns[name]) for name in ("published", "claimed", "dead")] == [3, 1, 1]
    assert columns["wait_p95"][-1] is not None or columns["wait_p95"][-2] is not None


async def test_a_range_has_the_minutes_and_the_marks_of_that_time(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    queue.publish("x")
    await post(page, "mark", text="deployed")
    queue.close()
    now = time.time() * 1000
    found = await fetch(page, "history", begin=int(now - 600_000), end=int(now + 60_000))
    assert (found["seconds"], sum(found["columns"]["published"]), len(found["marks"])) == (60, 1, 1)
    assert 10 <= len(found["columns"]["at"]) <= 12
    before = await fetch(page, "history", begin=int(now - 7_200_000), end=int(now - 3_600_000))
    assert (len(before["columns"]["at"]), sum(before["columns"]["published"]), before["marks"]) == (61, 0, [])
    week = await fetch(page, "history", begin=int(now - 7 * 86_400_000))
    assert (week["seconds"], len(week["columns"]["at"]) in {168, 169}) == (3600, True)
    month = await fetch(page, "history", begin=1)  # as far back as there is a history
    assert len(month["columns"]["at"]) == 720


@pytest.mark.parametrize(("begin", "end"), [(-600, -1200), (600, 1200), (-90 * 86_400, -80 * 86_400)])
async def test_a_time_without_a_history_is_refused(
    page: httpx.AsyncClient, queue: LeasedQueue, begin: int, end: int
) -> None:
    queue.publish("x")
    now = time.time()
    span = {"name": QUEUE, "begin": int((now + begin) * 1000), "end": int((now + end) * 1000)}
    answer = await page.get(f"{API}/history", params=span)
    assert (answer.status_code, "within the last 30 days" in answer.text) == (400, True)


async def test_what_an_operator_does_is_marked_with_his_name(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    bury(queue, "bad")
    await post(page, "pause")
    await post(page, "resume")
    await post(page, "redrive", where={"reason": "bad"})
    await post(page, "mark", text="deployed <b>1.4</b>")
    marks = (await fetch(page, "history"))["marks"]
    assert [mark["kind"] for mark in marks] == ["pause", "resume", "redrive", "mark"]
    assert {mark["by"] for mark in marks} == {"changer (console)"}
    said = ["paused", "resumed", f"redriven: {marks[2]['text']}", "deployed <b>1.4</b>"]
    assert [mark["said"] for mark in marks] == said


async def test_the_story_of_a_message_names_the_work_that_failed(page: httpx.AsyncClient, queue: LeasedQueue) -> None:
    (letter,) = bury(queue, "bad <b>row</b>")
    timeline = await fetch(page, "why", message_id=letter)
    assert (timeline["message_id"], timeline["state"]) == (letter, "dead")
    failed = next(step for step in timeline["steps"] if step["what"] == "nacked")
    assert failed["detail"] == "bad <b>row</b>"
    assert failed["holder"]["names"] == ["etl", "load"]
    assert (await fetch(page, "why", message_id="unheard-of"))["state"] == "gone"


@pytest.mark.parametrize("text", ["", "x" * 201])
async def test_a_mark_needs_a_short_text(page: httpx.AsyncClient, queue: LeasedQueue, text: str) -> None:
    queue.publish("x")
    await post(page, "mark", 422, text=text)


@pytest.mark.parametrize("discipline", ["reliable", "rotation"])
async def test_a_discipline_without_history_and_timelines_says_so(
    page: httpx.AsyncClient, redis_url: str, discipline: str
) -> None:
    with open_queue(redis_url, QUEUE, discipline) as queue:
        queue.publish("x")
    assert {"history", "why"} <= (await fetch(page, "queue"))["lacks"].keys()
    for path, more in (("history", {}), ("why", {"message_id": "m"})):
        answer = await page.get(f"{API}/{path}", params={"name": QUEUE, **more})
        assert answer.status_code == 400
        assert f"the discipline {discipline!r} has no " in answer.json()["detail"]
    await post(page, "mark", 400, text="deployed")
