from __future__ import annotations

import json

import pytest

from rmq_core import ConfigurationError
from rmq_spark.stream.offsets import Offset


def test_an_offset_is_restored_from_sparks_log() -> None:
    offset = Offset("work", "c").at(7)
    logged = json.loads(json.dumps(offset.plain))
    assert logged == {"v": 1, "queue": "work", "consumer": "c", "stream": offset.stream, "seq": 7}
    assert Offset.read(logged, "work", "c") == offset


def test_a_batch_is_a_lease_named_by_consumer_stream_and_number() -> None:
    assert Offset("work", "c", "s", 3).lease_id == "c/s/3"


def test_every_new_stream_has_its_own_id() -> None:
    first, second = Offset("work", "c"), Offset("work", "c")
    assert first.seq == second.seq == 0
    assert first.stream != second.stream


@pytest.mark.parametrize(("queue", "consumer"), [("other", "c"), ("work", "d")])
def test_an_offset_of_another_source_is_refused(queue: str, consumer: str) -> None:
    with pytest.raises(ConfigurationError, match="belongs to queue 'work' and consumer 'c'"):
        Offset.read(Offset("work", "c").plain, queue, consumer)


def test_an_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        Offset.read({"v": 2, "something": "else"}, "work", "c")
