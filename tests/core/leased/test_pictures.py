"""The pictures of `docs/diagrams/*.lanes` are true: the queue hands out what they show, in that order."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from rmq_core import LeasedConfig
from rmq_core.messages import NewMessage
from rmq_core.policy import Rate
from tests.core.worlds import World
from tools.lanes import ROOT, Bar, Picture, draw, read

CLOCKS_S = 0.02
"""The server's clock counts whole milliseconds, and starts before this test's."""
FILES = {path.stem: path for path in sorted((ROOT / "docs/diagrams").glob("*.lanes"))}


@pytest.mark.parametrize("name", FILES)
def test_a_queue_does_what_its_picture_shows(world: World, name: str) -> None:
    picture = read(FILES[name])
    queue = world.queue(config=LeasedConfig(lease=3600, max_deliveries=5))
    settings = picture.named("set")
    queue.admin.configure(**{name: int(value) if value.isdecimal() else value for name, value in settings.items()})
    if "published" not in picture.values:
        queue.publish_many(_messages(picture), publication=picture.values.get("publication"))
    if "rate" in picture.named("set"):
        _claims_are_no_earlier(queue, picture)
    else:
        Replay(queue, picture).run()


@pytest.mark.parametrize("name", FILES)
def test_a_picture_is_drawn_from_its_file(name: str) -> None:
    drawn = (ROOT / "docs/images" / f"{name}.svg").read_text("utf-8")
    assert drawn == draw(read(FILES[name])), "run `make diagrams`"


class Replay:
    """Makes the calls of a picture, column by column: what ends there ends, and every idle worker claims."""

    def __init__(self, queue: Any, picture: Picture) -> None:
        self.queue, self.picture = queue, picture
        self.unit_s = float(picture.values.get("unit", 0))
        self.groups = picture.values["claim groups"].split() if "claim groups" in picture.values else None
        self.held: dict[tuple[str, str], Any] = {}
        self.start = time.monotonic()

    def run(self) -> None:
        for column in range(self.picture.columns + 1):
            time.sleep(max(0.0, self.start + column * self.unit_s - time.monotonic()))
            for bar in self.picture.bars:
                if bar.end == column:
                    self.end(bar)
            for _, kind, cells in self.picture.lanes:
                if kind == ">":
                    self.happen(cells, column)
            if column == self.picture.columns:
                break
            shown = {(bar.group, bar.message) for bar in self.picture.bars if bar.start == column and not bar.waited}
            assert self.claimed() == shown, f"column {column}"
        assert not self.held

    def end(self, bar: Bar) -> None:
        if bar.waited:
            self.queue.backlog()  # whoever looks moves what has expired
            (dead,) = self.queue.admin.dead_letters(9)
            assert dead.payload == bar.message
        elif bar.failed:
            self.queue.nack(self.held.pop((bar.group, bar.message)))
        else:
            self.queue.ack(self.held.pop((bar.group, bar.message)))

    def claimed(self) -> set[tuple[str, str]]:
        """Let all idle workers claim; return what they got."""
        got = set()
        while len(self.held) < int(self.picture.values["workers"]):
            lease = self.queue.claim(groups=self.groups)
            if lease is None:
                break
            key = (lease.message.group, lease.message.payload)
            self.held[key] = lease
            got.add(key)
        return got

    def happen(self, cells: str, column: int) -> None:
        cell = cells[column : column + 1]
        if cell in {"+", "-"}:
            count = cells[:column].count("+") + (cell == "+")
            (group,) = self.picture.groups
            published = self.queue.publish(str(count), group=group, dedup_key=group)
            assert published.accepted is (cell == "+"), f"column {column}"
        if "publication" in self.picture.values:
            done = self.queue.publication(self.picture.values["publication"]).done
            assert done is ("!" in cells[: column + 1]), f"column {column}"
        if cell == "r":
            self.queue.admin.resume()
        if "p" in cells:
            paused = cells.find("p") <= column and "r" not in cells[: column + 1]
            assert self.queue.stats().paused is paused, f"column {column}"


def _messages(picture: Picture) -> list[NewMessage]:
    """Return the messages lane by lane, in the order of their names, and after them those that have a priority."""
    priorities, expires = picture.named("priority"), picture.named("expires")
    unit_s = float(picture.values.get("unit", 0))
    named = sorted({(picture.groups.index(bar.group), bar.message) for bar in picture.bars})
    return [
        NewMessage(
            message,
            group=picture.groups[group],
            priority=int(priorities.get(message, 0)),
            expires=int(expires[message]) * unit_s if message in expires else None,
        )
        for group, message in sorted(named, key=lambda one: one[1] in priorities)
    ] + [NewMessage("more", group=group) for group in picture.groups for _ in range(9) if picture.more(group)]


def _claims_are_no_earlier(queue: Any, picture: Picture) -> None:
    """Claim at ten times the rate, because the test would take as long as the picture."""
    rate = Rate.of(picture.named("set")["rate"])
    queue.admin.configure(rate=replace(rate, count=rate.count * 10))
    start = time.monotonic()
    for bar in sorted(picture.bars, key=lambda bar: (bar.start, bar.message)):
        lease = queue.claim(wait=60 if bar.start else 0)
        assert lease.message.payload == bar.message
        assert time.monotonic() - start >= bar.start * float(picture.values["unit"]) / 10 - CLOCKS_S
