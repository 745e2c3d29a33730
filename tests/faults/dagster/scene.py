"""`Scene`: one round on a deployment, its Redis and its queues: publish, hold workers, await the end, count."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from types import TracebackType
from typing import Any, Self

import dagster as dg
import psutil

from rmq_core import LeasedQueue
from rmq_dagster.runs.identity import CLAIMED, SENSOR
from tests.faults.dagster.deployment import Deployment, kill
from tests.faults.dagster.ways import CONFIG, LEASE_S, MODES, QUEUES, TITLES
from tests.faults.report import Cell
from tests.servers import Server

PATIENCE_S, LOOK_S = 600, 0.5
STUCK_S = LEASE_S + 60  # messages that no run is on its way for or at work on for so long are stuck
GONE_S = 60  # a driver ends five seconds after its lease or its submitter; a machine that is busy needs longer
LOST, STALE, STUCK, LEFT = "lost", "stale settles", "stuck", "drivers left"
SWITCHES = ("hold", "fail", "drag", "block")
_rounds = count(1)


class Scene:
    """One round of one fault, over all ways of working at once: `messages` for each queue whenever some are published.

    `measured`: the bounds of the page hold. Otherwise, on a machine that does other work as well, no time limit
    applies.
    """

    def __init__(self, fault: str, deployment: Deployment, redis: Server, messages: int, *, measured: bool) -> None:
        self.fault, self.deployment, self.redis, self.messages = fault, deployment, redis, messages
        self.stuck_s, self.gone_s = (STUCK_S, GONE_S) if measured else (PATIENCE_S, PATIENCE_S)
        self.board, self.number, self.batches = deployment.board, next(_rounds), count(1)
        self.queues = {mode: [LeasedQueue(redis.url, name, CONFIG) for name in names] for mode, names in QUEUES.items()}
        self.published: dict[str, set[str]] = {mode: set() for mode in MODES}
        self.began = datetime.now(UTC)
        # Runs whose workers are gone without Dagster's knowing.
        self.orphans: list[str] = []
        self.outlived = 0
        self.board.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.board.turn_off(*SWITCHES)
        for queue in chain.from_iterable(self.queues.values()):
            queue.close()

    def publish(self) -> None:
        """Publish so many new messages to each queue."""
        batch = next(self.batches)
        for mode, queues in self.queues.items():
            for queue in queues:
                payloads = [f"{self.number}/{queue.name}/{batch}/{number}" for number in range(self.messages)]
                queue.publish_many(payloads)
                self.published[mode].update(payloads)

    def at_work(self) -> dict[str, list[dict[str, Any]]]:
        """Hold the workers; return the notes of those at work, by mode, once there are some on every queue."""
        self.board.turn_on("hold")
        self.publish()
        self.await_that(lambda: all(self.served(mode) >= len(QUEUES[mode]) for mode in MODES))
        return {mode: self.notes(mode, "did") for mode in MODES}

    def served(self, mode: str) -> int:
        """Return how many runs are at work."""
        return len({note["run"] for note in self.notes(mode, "did")})

    def notes(self, mode: str, *events: str) -> list[dict[str, Any]]:
        return [note for note in self.board.notes(*events) if note["mode"] == mode]

    def workers(self) -> list[int]:
        """Return the processes of the runs at work."""
        return [note["pid"] for mode in MODES for note in self.notes(mode, "working")]

    def runs(self, mode: str) -> list[dg.DagsterRun]:
        """Return the runs that were launched for one mode in this round."""
        filters = dg.RunsFilter(tags={SENSOR: mode}, created_after=self.began)
        return list(self.deployment.instance.get_runs(filters))

    def await_that(self, condition: Callable[[], object]) -> None:
        """Return once the condition is true. A failure shows what the deployment printed."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"it did not come true within {PATIENCE_S} s:\n{self.deployment.log()}"
            time.sleep(LOOK_S)

    def finish(self) -> list[Cell]:
        """Release the workers, wait until everything is done, and count."""
        self.board.turn_off(*(switch for switch in SWITCHES if switch != "fail"))
        seconds, stuck = self._done()
        unfinished = self._close_books()
        self.see_off(self.drivers())
        measured = {
            "runs written off": unfinished,
            STUCK: stuck,
            LEFT: Counter(spark=self.outlived),
            "seconds": seconds,
        }
        return [self._cell(mode, {name: found[mode] for name, found in measured.items()}) for mode in MODES]

    def _close_books(self) -> Counter[str]:
        """Cancel runs that do not end, as an operator would: Dagster does not notice that their workers have died."""
        deadline = time.monotonic() + GONE_S
        while self._open(but=self.orphans) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        left = self._open()
        for run in left:
            self.deployment.write_off(run)
        return Counter(left.values())

    def _open(self, but: Sequence[str] = ()) -> dict[str, str]:
        """Return the modes of the runs that are not finished."""
        runs = ((run, mode) for mode in MODES for run in self.runs(mode))
        return {run.run_id: mode for run, mode in runs if not run.is_finished and run.run_id not in but}

    def _done(self) -> tuple[Counter[str], Counter[str]]:
        """Return the seconds until each mode was done, and how many messages were stuck in the meantime."""
        began, seconds, stuck = time.monotonic(), Counter[str](), Counter[str]()
        cared_for = dict.fromkeys(MODES, began)

        def everything() -> bool:
            now = time.monotonic()
            on_the_way = set(self._open(but=self.orphans).values())  # however slow the machine is
            for mode in set(MODES) - set(seconds):
                left = self._left(mode)
                if not left:
                    seconds[mode] = round(now - began)
                elif mode in on_the_way:
                    cared_for[mode] = now
                elif now - cared_for[mode] > self.stuck_s:
                    stuck[mode] = max(stuck[mode], left)
            return len(seconds) == len(MODES)

        self.await_that(everything)
        return seconds, stuck

    def _left(self, mode: str) -> int:
        """Return the messages that are neither acked nor dead."""
        return sum(sum(queue.stats()[:3]) for queue in self.queues[mode])

    def drivers(self) -> list[psutil.Process]:
        """Return the running drivers."""
        return self.deployment.processes("dagster/driver.py")

    def see_off(self, drivers: list[psutil.Process]) -> None:
        """Wait until these processes have ended. Those that outlive their run are counted, and killed."""
        deadline = time.monotonic() + self.gone_s
        while (left := [driver for driver in drivers if self.deployment.owns(driver)]) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        for driver in left:
            kill(driver.pid)
        self.outlived += len(left)

    def _cell(self, mode: str, measured: dict[str, int]) -> Cell:
        did, acked = (Counter(self._payloads(mode, event)) for event in ("did", "acked"))
        runs = self.runs(mode)
        counts = {
            "messages": len(self.published[mode]),
            "runs": len(runs),
            "runs for nothing": sum(run.tags.get(CLAIMED) == "0" for run in runs),
            "worked on again": sum(times - 1 for times in did.values()),
            "settles refused": len(self.notes(mode, "refused")),
            LOST: len(self.published[mode] - set(acked)) + sum(queue.stats().dead for queue in self.queues[mode]),
            STALE: sum(times - 1 for times in acked.values()),
        }
        return Cell(self.fault, TITLES[mode], counts | measured)

    def _payloads(self, mode: str, event: str) -> list[str]:
        return [payload for note in self.notes(mode, event) for payload in note["payloads"]]
