"""An exporter with the metrics and the numbers for KEDA of `rmq serve`; its counters grow with each scrape."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, count

GAUGES = {
    "rmq_queue_readable": 1,
    "rmq_ready_messages": 40,
    "rmq_isolated_messages": 4,
    "rmq_delayed_messages": 7,
    "rmq_leased_messages": 20,
    "rmq_leases": 2,
    "rmq_expired_leases": 1,
    "rmq_dead_letters": 3,
    "rmq_oldest_lease_age_seconds": 42.0,
    "rmq_oldest_ready_age_seconds": 12.5,
    "rmq_paused": 0,
}
EVENTS = (
    "published",
    "duplicate",
    "dropped",
    "claimed",
    "acked",
    "nacked",
    "released",
    "reclaimed",
    "taken_over",
    "dead",
    "redriven",
    "replaced",
)
HISTOGRAMS = ("rmq_wait_seconds", "rmq_processing_seconds")
BOUNDS = [2.0**power for power in range(-7, 15)]
QUEUES = ("flights", "airports", "carriers")
PAUSED = "carriers"


SCALING = {"ready": GAUGES["rmq_ready_messages"], "leased": GAUGES["rmq_leased_messages"], "total": 60}


def exposition(scrape: int) -> str:
    """Return the metrics in the text format of Prometheus, as of the scrape with this number."""
    return "".join(_lines(scrape))


def _lines(scrape: int) -> Iterator[str]:
    yield "# TYPE rmq_up gauge\nrmq_up 1\n"
    yield "# TYPE rmq_reading_age_seconds gauge\nrmq_reading_age_seconds 0.5\n"
    for name, value in GAUGES.items():
        yield f"# TYPE {name} gauge\n"
        yield from (
            f"{name}{{{_labels(queue)}}} {1 if (name, queue) == ('rmq_paused', PAUSED) else value}\n"
            for queue in QUEUES
        )
    yield "# TYPE rmq_messages_total counter\n"
    for queue in QUEUES:
        yield from (f'rmq_messages_total{{{_labels(queue)},event="{event}"}} {10 * scrape}\n' for event in EVENTS)
    for name in HISTOGRAMS:
        yield f"# TYPE {name} histogram\n"
        for queue in QUEUES:
            yield from _histogram(name, queue, scrape)


def _histogram(name: str, queue: str, scrape: int) -> Iterator[str]:
    totals = list(accumulate(scrape for _ in BOUNDS))
    for bound, total in zip([*BOUNDS, "+Inf"], [*totals, totals[-1]], strict=True):
        yield f'{name}_bucket{{{_labels(queue)},le="{bound}"}} {total}\n'
    yield f"{name}_sum{{{_labels(queue)}}} {scrape * sum(BOUNDS)}\n{name}_count{{{_labels(queue)}}} {totals[-1]}\n"


def _labels(queue: str) -> str:
    return f'queue="{queue}",discipline="leased"'


@contextmanager
def running_exporter() -> Iterator[str]:
    """Yield host and port of an exporter for the duration of the block."""
    scrapes = count(1)

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/keda/"):
                text, kind = json.dumps(SCALING).encode(), "application/json"
            else:
                text, kind = exposition(next(scrapes)).encode(), "text/plain; version=0.0.4"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
