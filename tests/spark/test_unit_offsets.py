from __future__ import annotations

import pytest

from rmq_core import ConfigurationError
from rmq_spark.stream.batch_leases import Offset


@pytest.mark.parametrize(("queue", "consumer"), [("other", "c"), ("work", "d")])
def test_an_offset_of_another_source_is_refused(queue: str, consumer: str) -> None:
    with pytest.raises(ConfigurationError, match="belongs to queue 'work' and consumer 'c'"):
        Offset.read(Offset("work", "c").plain, queue, consumer)


def test_an_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        Offset.read({"v": 2, "something": "else"}, "work", "c")
