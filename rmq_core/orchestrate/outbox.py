"""`Outbox`: messages that a step publishes when it has succeeded, once, however often it is retried.

They are staged, invisible to consumers, and published together at the end of a block, under a name that the tries of
the step share. Redis remembers which blocks of that name were published, and drops the messages of a repetition. This
is the pattern "transactional outbox" (Richardson, "Microservices Patterns", 2018), with the stage as the table.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any

from rmq_core.leased.queue import LeasedQueue
from rmq_core.messages import Stage
from rmq_core.orchestrate.claiming import kept_open


class Outbox:
    """Collects messages for one queue. `published`: whether this block published them; None while it runs.

    False: an earlier try of the step had published its block, and these messages were dropped. count: how many messages
    were collected.
    """

    def __init__(self, queue: LeasedQueue, headers: Mapping[str, str] | None = None) -> None:
        self.published: bool | None = None
        self.stages: list[Stage] = []
        self.publications: set[str] = set()
        self._queue, self._headers = queue, headers

    @property
    def count(self) -> int:
        return sum(stage.count for stage in self.stages)

    def publish(
        self,
        payloads: Iterable[Any],
        *,
        dedup_key: Callable[[Any], str] | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
    ) -> int:
        """Stage messages for the end of the block; return how many. Raises PayloadError and QueueFull.

        group, priority, publication, expires: in a queue that has groups; a NewMessage may have its own. The
        publication named here exists after the block, even if no message belongs to it.
        """
        if publication is not None:
            self.publications.add(publication)
        turn: dict[str, Any] = {"group": group, "priority": priority, "publication": publication, "expires": expires}
        all_headers = {**(self._headers or {}), **(headers or {})} or None
        self.stages.append(self._queue.stage(payloads, dedup_key=dedup_key, headers=all_headers, **turn))
        return self.stages[-1].count


@contextmanager
def publishing_once(
    queue: LeasedQueue, step: str, attempt: Hashable, headers: Mapping[str, str] | None = None
) -> Iterator[Outbox]:
    """Publish what the block staged if it ends without an error, else drop it.

    step: the name that all attempts share; the blocks of each attempt are numbered in their order. headers: of all
    messages. Raises StageLost if the block took longer than a day, QueueFull, and Unsupported for a queue in shards.
    """
    outbox = Outbox(queue, headers)
    number = next(_numbers[step, attempt, queue.name])
    try:
        yield outbox
    except BaseException:
        queue.drop_staged(outbox.stages)
        raise
    with ExitStack() as open_ones:
        for publication in sorted(outbox.publications):
            open_ones.enter_context(kept_open(queue, publication))
        outbox.published = queue.publish_staged(outbox.stages, sink=step, batch=number)


_numbers: dict[Hashable, Iterator[int]] = defaultdict(lambda: itertools.count(1))
"""Numbers the outboxes of each try of a step, so that a retry finds those that were published before."""
