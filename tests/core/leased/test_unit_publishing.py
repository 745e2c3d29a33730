from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmq_core.envelope import codec
from rmq_core.envelope.payloads import decode_payload, digest
from rmq_core.errors import (
    NotDurable,
    QueueUnavailable,
)
from rmq_core.exchange import Call
from rmq_core.leased.publishing import publish, publish_many
from rmq_core.policy import Durability
from rmq_core.reports import PublishReport
from tests.core.by_hand import drive, step
from tests.core.leased.by_hand import asked, engine

WINDOW = {"dedup": True, "dedup_window": 60}


def bodies(call: Call) -> list[bytes]:
    """Return the bodies in a publish call."""
    return list(call.appended.messages if call.appended else call.given["messages"])


def sent(call: Call) -> list[Any]:
    """Return the payloads in a publish call, in order."""
    parts = [codec.split(b"0 1 0 " + body) for body in bodies(call)]
    return [decode_payload(part.kind, part.payload) for part in parts]


def test_a_text_its_bytes_and_its_json_value_are_no_duplicates() -> None:
    core = engine(**WINDOW)
    keys = {asked(publish(core, payload), b"accepted 0 1")[0].given["markers"] for payload in ("[1]", b"[1]", [1])}
    assert len(keys) == 3


@pytest.mark.parametrize("dedup_key", ["k", b"k", lambda payload: payload["id"]])
def test_a_key_of_the_caller_goes_before_that_of_the_queue(dedup_key: Any) -> None:
    core = engine(dedup_key=lambda _: "other", dedup_window=5)
    (call,) = asked(publish(core, {"id": "k"}, dedup_key=dedup_key), b"accepted 0 1")
    assert call.given["markers"] == (core.keys.dedup(digest("key", b"k")),)
    (call,) = asked(publish(core, {"id": "k"}), b"accepted 0 1")
    assert call.given["markers"] == (core.keys.dedup(digest("key", b"other")),)


def test_an_endless_iterable_is_read_one_write_at_a_time() -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "x"

    operation = publish_many(engine(), endless())
    next(operation)
    assert read == 1000
    step(operation, b"now @1")
    assert read == 4000
    step(operation, [b"accepted 0"] * 4)
    assert read == 8000


def test_a_chunk_holds_at_most_four_mebibytes_unless_one_message_is_larger() -> None:
    large = ["a" * (3 << 20), "b" * (1 << 20), "c" * (5 << 20), "d"]
    _, (chain,) = drive(publish_many(engine(max_payload_bytes=6 << 20), large), [[b"accepted 0"] * 4])
    assert [[text[0] for text in sent(call)] for call in chain.calls] == [["a"], ["b"], ["c"], ["d"]]


def test_a_lost_server_states_what_was_accepted_before_it() -> None:
    with pytest.raises(QueueUnavailable) as gone:
        drive(publish_many(engine(), ["x"] * 4001), [b"now @1", [b"accepted 0"] * 4, QueueUnavailable("gone")])
    assert isinstance(gone.value.report, PublishReport)
    assert gone.value.report.accepted == 4000


def test_with_durability_each_chunk_is_confirmed_before_the_next_is_sent() -> None:
    core = engine(durability=Durability(1))
    operation = publish_many(core, ["x"] * 2500)
    report, wants = drive(operation, [b"now @1", *[(b"accepted 0", 1)] * 3])
    assert [len(bodies(want)) for want in wants[1:]] == [1000, 1000, 500]
    assert report.accepted == 2500
    with pytest.raises(NotDurable) as unsure:
        drive(publish_many(core, ["x"] * 2500), [b"now @1", (b"accepted 0", 1), (b"accepted 0", 0)])
    assert isinstance(unsure.value.report, PublishReport)
    assert unsure.value.report.accepted == 2000
