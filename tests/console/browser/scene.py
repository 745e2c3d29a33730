"""Queues as an engineer on call finds them: three causes of dead letters, a lost worker, a pause, a growing backlog."""

from __future__ import annotations

import math
import time
from typing import Any

from rmq_core import LeasedConfig, LeasedQueue, open_queue
from rmq_core.history import acting_as

AIRFLOW = "task:flights_delays/clean"
REASONS = (
    'ValueError: could not convert string to float: "NA" in column dep_delay, row {}',
    "TimeoutError: no answer of https://weather.example/v2/stations/{} after 30.0 s",
    "KeyError: 'carrier_{}'",
)
BUSY = "flights.delays"


def make_scene(url: str) -> dict[str, Any]:
    """Create the queues; return them by name."""
    names = {BUSY: 1, "images.thumbnails": 5, "reports.nightly": 5, "entities.recompute": 5, "apart": 5}
    queues = {
        name: LeasedQueue(url, name, LeasedConfig(max_deliveries=most, history=name == "reports.nightly"))
        for name, most in names.items()
    }
    _flights(queues[BUSY])
    queues["images.thumbnails"].publish_many(f"s3://images/{number:08}.jpg" for number in range(40_000))
    queues["reports.nightly"].publish({"report": "revenue"})
    with acting_as("dana (console)"):
        queues["reports.nightly"].admin.pause()
    queues["entities.recompute"].publish("customer/1")
    queues["entities.recompute"].claim(owner="worker-7.example.internal:4711", lease=0.001)
    queues["apart"].publish_many([*"abcdefgh"])
    for _ in (1, 2):
        queues["apart"].nack(queues["apart"].claim(max_messages=8))
    with open_queue(url, "events.clicks", "streams") as events:
        events.publish_many([{"n": number} for number in range(40)])
    write_history(queues[BUSY])
    write_history(queues["images.thumbnails"], growing=True)
    return queues


def _flights(queue: LeasedQueue) -> None:
    headers = {"airflow-dag-id": "flights_publish", "airflow-run-id": "scheduled__2026-11-20T21:00:00+00:00"}
    for number in range(37):
        queue.publish({"carrier": "AA", "path": f"s3://flights/AA/{number:02}.parquet"}, headers=headers)
        reason = REASONS[0 if number < 24 else 1 if number < 34 else 2].format(100 + number)
        queue.nack(queue.claim(owner=AIRFLOW), reason=reason)
    queue.publish_many(
        [{"carrier": "UA", "path": f"s3://flights/UA/{n:03}.parquet"} for n in range(180)], headers=headers
    )
    for index, (size, done, lease) in enumerate([(12, 5, 900), (10, 9, 3600), (8, 0, 400)]):
        held = queue.claim(
            lease_id=f"flights/{index}", owner=f"task:flights_delays/score [{index}]", max_messages=size, lease=lease
        )
        assert held is not None
        if done:
            queue.ack(held, held.messages[:done])
    for minutes in (4, 9, 14):
        queue.publish({"carrier": "DL", "path": "s3://flights/DL/retry.parquet"}, headers=headers, delay=60 * minutes)


def write_history(queue: Any, *, growing: bool = False) -> None:
    """Write a day of minutes and a month of hours as clients would have flushed them, and marks of an operator."""
    key, now = queue._engine.keys.history, time.time()
    minute, hour = int(now // 60), int(now // 3600)
    fields = {f"m{at % 1440}": _point(at, 1, minute - at, growing=growing) for at in range(minute - 1439, minute + 1)}
    fields |= {f"h{at % 720}": _point(at, 60, 99, growing=growing) for at in range(hour - 719, hour + 1)}
    marks = [(50, "mark", "deployed 1.4.2"), (33, "pause", ""), (29, "resume", ""), (9, "redrive", "1200")]
    fields["marks"] = "\n".join(
        f"{int((now - back * 60) * 1000)}\t{kind}\tdana (console)\t{text}" for back, kind, text in marks
    )
    queue.client.hset(key, mapping=fields)


def _point(number: int, scale: int, back: int, *, growing: bool) -> str:
    wave = 1 + 0.5 * math.sin(number / 9) + 0.2 * math.sin(number * 2.3)
    published = int(120 * wave * scale)
    claimed = int(published * (0.6 if growing else 0.97))
    ready = int(4000 + 700 * max(0, 60 - back) if growing else 180 + 30 * math.sin(number / 15))
    age = int(1000 * (60 + 20 * max(0, 60 - back)) if growing else 9000 * wave)
    bad = 33 <= back <= 48  # after the deployment, until the pause
    failed, dead = (
        (9 if bad else 1 if number % 7 < 2 else 0) * scale,
        (4 if bad and back >= 40 else 1 if back == 39 else 0),
    )
    waits = " ".join(f"w{bucket}+{max(1, int(claimed * share))}" for bucket, share in ((6, 0.2), (8, 0.6), (11, 0.2)))
    works = " ".join(f"s{bucket}+{max(1, int(claimed * share))}" for bucket, share in ((4, 0.3), (5, 0.6), (9, 0.1)))
    longest = f"wx^{int(14000 * wave)} sx^{int(3000 * wave)}"
    counts = f"p+{published} c+{claimed} a+{max(0, claimed - failed)} n+{failed} d+{dead} v+0"
    return f"{number} {counts} g={ready} g^{int(ready * 1.1)} y={age} y^{int(age * 1.2)} {waits} {works} {longest}"
