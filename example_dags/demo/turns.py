"""Who gets what next: airlines take turns, a rerun comes first, and the report starts when all of it is done."""

from __future__ import annotations

import calendar
import json
from collections.abc import Sequence
from dataclasses import dataclass

from example_dags.demo.place import Place
from example_dags.demo.progress import Progress
from example_dags.demo.table import table
from example_dags.flights import CARRIERS, DEPARTURES, carrier_months, count_late
from rmq_core.messages import Message, NewMessage

QUEUE = "carrier-months"
PUBLICATION = "flights of 2013"


@dataclass(frozen=True)
class Turns:
    """The messages of each claim, in the order of the claims; what the publication and the report counted."""

    claims: Sequence[Sequence[Message]]
    acked: int
    dead: int
    departures: int

    def summary(self) -> str:
        """Return a table of the claims, without most of those that are alike."""
        rows = [
            [f"claim {number}", str(len(claim)), str(len(_airlines(claim))), _months(claim)]
            for number, claim in enumerate(self.claims, 1)
        ]
        counted = f"{self.acked} acked, {self.dead} dead; then the report: {self.departures:,} departures"
        header = ["who got what next", "items", "airlines", "month"]
        return "\n".join([table([header, *rows[:3], ["…"] * 4, *rows[-1:]]), f"{PUBLICATION}: {counted}"])

    def mismatches(self) -> list[str]:
        """Return one sentence for each thing that is not as expected."""
        each = len(CARRIERS)
        expected = {
            "each claim got one item of each airline": {len(c) for c in self.claims} == {each}
            and {len(_airlines(c)) for c in self.claims} == {each},
            "the rerun came first": [_months(c) for c in self.claims] == ["December again", *calendar.month_name[1:]],
            "the publication counted all items": (self.acked, self.dead) == (13 * each, 0),
            "the report has all departures": self.departures == DEPARTURES,
        }
        return [f"groups: it is not so that {what}" for what, holds in expected.items() if not holds]


def run(place: Place, progress: Progress) -> Turns:
    """Publish a year of each airline, and a rerun of December; work until nothing is left; report."""
    results = place.root / "results" / "carriers"
    with place.queue(QUEUE, grouped=True) as queue:
        queue.admin.configure(groups="fair")
        progress.say(
            "groups", "publishing one airline's year after the other, then a rerun of December with a priority"
        )
        year, rerun = ([NewMessage(item, group=item["carrier"]) for item in carrier_months(*of)] for of in ([], [12]))
        queue.publish_many(year, publication=PUBLICATION)
        queue.publish_many(rerun, publication=PUBLICATION, priority=5)
        claims = []
        while lease := queue.claim(max_messages=len(CARRIERS)):
            for message in lease.messages:
                count_late(message.payload, results)
            queue.ack(lease)
            claims.append(lease.messages)
        done = queue.publication(PUBLICATION, wait=10)
    progress.say("groups", f"all {done.acked} items of the publication are done: adding up the report")
    departures = sum(json.loads(path.read_text())["departures"] for path in results.glob("*.json"))
    return Turns(claims, done.acked, done.dead, departures)


def _airlines(claim: Sequence[Message]) -> set[str]:
    return {message.group for message in claim}


def _months(claim: Sequence[Message]) -> str:
    months = {
        calendar.month_name[message.payload["month"]] + (" again" if message.priority else "") for message in claim
    }
    return ", ".join(sorted(months))
