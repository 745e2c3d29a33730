"""The hooks of the stream source, called as Spark calls them, with every crash between two of them.

Each test calls them as Spark 4.0 does, and as Spark 4.2 does where that is installed.
"""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, LeasedQueue, LeaseLost, Unsupported
from rmq_core.errors import ConsumerTaken
from rmq_core.kernel.base import tools_of
from rmq_spark.stream.batch_leases import Offset, ReplayedBatch
from tests.core.leases import frequent_heartbeats
from tests.spark.conftest import QUEUE, wait_for
from tests.spark.readers import VERSIONS, held, publish, run, spark_version, wait_until_expired


@pytest.fixture(autouse=True, params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    """The version of Spark whose calls `run` makes."""
    with spark_version(request.param):
        yield request.param


def test_a_batch_is_acked_when_spark_has_committed_it_and_not_before(
    redis_url: str, queue: LeasedQueue, version: str
) -> None:
    publish(queue, 10)
    with run(redis_url, maxMessagesPerBatch=6) as first:
        end = first.next()
        if version == "4.2":
            assert first.next() == end, "asked again with the same start, the same batch is named"
        assert sorted(first.read(end)) == list(range(6))
        assert held(queue) == 6
        first.at = end
        assert sorted(first.batch()) == [6, 7, 8, 9]
        assert held(queue) == 4
        assert first.next() == first.at
        assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_query_that_proceeds_before_its_log_is_durable_is_refused_and_continues_after_a_restart(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url, maxMessagesPerBatch=2) as first:
        end = first.next()
        assert first.read(end) == [0, 1]
        first.at = end
        with pytest.raises(ConfigurationError, match="asyncProgressTrackingEnabled: leave it out"):
            first.reader.partitions(end, first.next())
    with run(redis_url, end, maxMessagesPerBatch=2) as again:
        assert again.batch() == [2, 3]


def test_a_batch_can_be_read_as_often_as_spark_likes(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 100)
    with run(redis_url, numPartitions=7) as first:
        end = first.next()
        assert sorted(first.read(end)) == sorted(first.read(end)) == list(range(100))
        assert len(first.reader.partitions(first.at, end)) == 7
        assert first.reader.partitions(end, end) == []


def test_a_pickled_reader_reads_its_slices_whose_repr_contains_no_token(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 10)
    with run(redis_url, numPartitions=1) as first:
        (part,) = first.reader.partitions(first.at, first.next())
        executor, sent = pickle.loads(pickle.dumps((first.reader, part)))
        assert sum(batch.num_rows for batch in executor.read(sent)) == 10
        assert str(sent.lease.token) not in repr(sent) + str(sent)


# Crashes: a run that ends leaves its leases; the next one begins where Spark's checkpoint says.


def test_a_crash_between_claim_and_offset_log_loses_no_time_and_no_message(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 8)
    with run(redis_url, maxMessagesPerBatch=4) as first:
        first.batch()
        start = first.at
        first.next()
    with run(redis_url, start, maxMessagesPerBatch=4) as second:
        assert sorted(second.batch()) == [4, 5, 6, 7]
        second.next()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_messages_of_a_crash_before_the_first_logged_offset_go_to_the_next_stream(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url) as first:
        first.next()
    with run(redis_url) as second:
        end = second.next()
        assert sorted(second.read(end)) == [0, 1, 2, 3]
        second.at = end
        second.next()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_crash_in_a_batch_redelivers_the_same_messages_with_a_counted_delivery(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url) as first:
        start, end = first.at, first.next()
        first.read(end)
    publish(queue, 4, first=4)
    with run(
        redis_url, numPartitions=1
    ) as second:  # the first batch: Spark requests an initial offset again and has the end in its log
        assert sorted(second.read(end)) == [0, 1, 2, 3]
        parts = second.reader.partitions(start, end)
        deliveries = {
            row["deliveries"] for part in parts for batch in second.reader.read(part) for row in batch.to_pylist()
        }
        assert deliveries == {2}
        second.at = end
        assert sorted(second.batch()) == [4, 5, 6, 7]


def test_the_restart_acks_after_a_crash_between_the_commit_of_spark_and_the_ack(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url) as first:
        first.batch()
        end = first.at
    assert held(queue) == 4
    with run(redis_url, end) as second:
        assert second.next() == end
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_new_checkpoint_gets_the_messages_that_the_old_one_left(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 6)
    with run(redis_url, maxMessagesPerBatch=3) as first:
        first.batch()
        first.batch()
    with run(redis_url) as second:
        assert sorted(second.batch()) == [3, 4, 5]
        second.next()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_run_that_was_replaced_can_do_nothing_any_more(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)
    with run(redis_url, consumerTimeout="60 s") as first:
        end = first.next()
        part = first.reader.partitions(first.at, end)[0]
        with run(redis_url, consumerTimeout="60 s") as second:  # of the same stream: it takes over at once
            assert sorted(second.read(end)) == [0, 1, 2, 3]
            with pytest.raises(LeaseLost):
                list(first.reader.read(part))
            with pytest.raises(ConsumerTaken):
                first.reader.commit(end)
            assert held(queue) == 4


def test_two_queries_cannot_share_a_consumer(
    redis_url: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(queue, 4)
    with run(redis_url, consumerTimeout="60 s") as first, run(redis_url) as second:
        end = first.next()
        first.read(end)
        first_leases: Any = first.reader._leases
        # While the second waits, the first renews its name, as its thread would do within the minute.
        # Other threads must not get this `sleep`.
        clock = SimpleNamespace(**{**vars(time), "sleep": lambda _: first_leases._member._stay()})
        monkeypatch.setattr("rmq_spark.stream.batch_leases.time", clock)
        with pytest.raises(ConsumerTaken, match="consumer 'c' is used by another run"):
            second.batch()
        assert sorted(first.read(end)) == [0, 1, 2, 3]


# Lost leases.


def test_a_replay_of_an_expired_lease_whose_messages_went_to_others_is_empty(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url, leaseDuration="50 ms") as first:
        start, end = first.at, first.next()
    wait_until_expired(queue)
    thief = queue.claim(max_messages=1)
    assert thief is not None
    with run(redis_url, start, failOnLeaseLoss=True) as strict, pytest.raises(LeaseLost):
        strict.read(end)
    with run(redis_url, start) as second:
        assert second.read(end) == []
        second.at = end
        queue.ack(thief)
        assert len(second.batch()) >= 1  # messages that failed before are claimed one by one


def test_a_replay_of_an_acked_batch_is_refused_and_never_empty(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 8)
    with run(redis_url, maxMessagesPerBatch=4) as first:
        start = first.at
        first.batch()
        end = first.at
        first.next()
    with run(redis_url) as second, pytest.raises(ReplayedBatch, match="was finished and acked"):
        second.reader.partitions(start, end)
    with run(redis_url, failOnDataLoss=False) as lenient:
        assert lenient.reader.partitions(start, end) == []


def test_a_checkpoint_older_than_the_acked_batches_is_refused_or_skipped(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 9)
    with run(redis_url, maxMessagesPerBatch=3) as first:
        start = first.at
        first.batch()
        first.batch()
        assert first.next() != first.at
    with run(redis_url, start) as second, pytest.raises(ReplayedBatch):
        second.next()
    with run(redis_url, start, failOnDataLoss=False) as lenient:
        assert sorted(lenient.batch()) == [6, 7, 8]
        lenient.next()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_batch_is_known_to_be_acked_although_a_message_of_it_was_nacked(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)
    with run(redis_url) as first:
        start, end = first.at, first.next()
        lease = first.reader.partitions(start, end)[0].lease  # type: ignore[attr-defined]
        queue.nack(lease, [next(iter(queue.messages(lease)))], delay=60)
        first.reader.commit(end)
    assert queue.stats()[:3] == (0, 1, 0)
    with run(redis_url) as second, pytest.raises(ReplayedBatch):
        second.reader.partitions(start, end)


def test_an_acked_batch_is_recognized_after_another_checkpoint_ran_and_its_record_expired(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url) as first:
        start, end = first.at, first.next()
        lease = first.reader.partitions(start, end)[0].lease  # type: ignore[attr-defined]
        first.reader.commit(end)
    with run(redis_url) as other:
        other.next()
    with redis.Redis.from_url(redis_url) as client:
        client.delete(f"rmq:{{{QUEUE}}}:done:{lease.id}")
    with run(redis_url, start) as again, pytest.raises(ReplayedBatch):
        again.reader.partitions(start, end)


def test_heartbeats_keep_lease_and_consumer_name_during_a_batch(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)
    with frequent_heartbeats(), run(redis_url, leaseDuration="1 minute", consumerTimeout="6 seconds") as first:
        end = first.next()
        first.read(end)

        def deadlines() -> tuple[Any, Any]:
            info = queue.lease_info(Offset.read(end, QUEUE, "c").lease_id)
            return info and info.deadline, queue.client.hget("rmq:{work}:consumer:c", "until")

        for _ in range(2):
            lease, name = deadlines()
            wait_for(lambda: deadlines()[0] > lease and deadlines()[1] > name, 60)  # noqa: B023
        assert sorted(first.read(end)) == [0, 1, 2, 3]


def test_a_lost_consumer_name_is_reported_by_the_next_hook(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 1)
    with run(redis_url) as first:
        first.batch()
        tools_of(queue).register_consumer("c", run="somebody", stream=first.at["stream"], alive=60)
        member = first.reader._leases._member  # type: ignore[union-attr]
        wait_for(lambda: member._taken, 60)
        with pytest.raises(ConsumerTaken):
            first.next()


# Limits.


def test_messages_behind_the_first_large_ones_are_measured_too(redis_url: str, queue: LeasedQueue) -> None:
    queue.publish_many(["small" * 200] * 160 + ["x" * 1_000_000] * 30)
    with run(redis_url, maxBytesPerBatch="20 MiB") as first:
        info = queue.lease_info(Offset.read(first.next(), QUEUE, "c").lease_id)
        assert info is not None
        assert info.count == 160 + 20  # Redis returns about 8 MiB at a time


def test_a_waiting_stream_queries_redis_at_most_four_times_a_second(redis_url: str, queue: LeasedQueue) -> None:
    with run(redis_url, pollTimeout="1 second", consumerTimeout="60 seconds") as first:
        first.next()
        with queue.client.monitor() as monitor:
            started = time.monotonic()
            first.next()
            first.next()
            taken_s = time.monotonic() - started
            queue.client.echo("the end")
            told = itertools.takewhile(lambda heard: "the end" not in heard["command"], monitor.listen())
            asked = [heard for heard in told if heard["client_type"] != "lua"]
    assert 0 < len(asked) <= 4 * taken_s


# Disciplines and invalid input.


@pytest.mark.parametrize("discipline", ["reliable", "streams", "rotation"])
def test_other_disciplines_are_refused(redis_url: str, discipline: str) -> None:
    with run(redis_url, discipline=discipline) as first, pytest.raises(Unsupported, match="use leased or jobs"):
        first.next()


def test_an_unknown_queue_is_refused_with_the_nearest_name(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 1)
    with run(redis_url, queue="wrok", newQueue=False) as first, pytest.raises(ConfigurationError, match="mean 'work'"):
        first.next()
    with run(redis_url, queue="zzz", newQueue=False) as first, pytest.raises(ConfigurationError, match="publish to it"):
        first.next()


def test_a_checkpoint_of_another_queue_or_consumer_is_refused(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 1)
    with run(redis_url) as first:
        end = first.next()
    for other in ({"queue": "other"}, {"consumer": "other"}):
        with pytest.raises(ConfigurationError, match="checkpointLocation"), run(redis_url, end, **other) as second:
            second.next()
    with pytest.raises(ConfigurationError, match="cannot read"), run(redis_url, {"v": 2}) as future:
        future.next()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"consumer": ""}, "needs the option 'consumer'"),
        ({"leaseDuration": "soon"}, "option leaseDuration must be a time"),
        ({"maxMessagePerBatch": 3}, "did you mean 'maxMessagesPerBatch'"),
        ({"maxBytesPerBatch": "much"}, "option maxBytesPerBatch must be a size"),
        ({"numPartitions": 0}, "option numPartitions must be a whole number >= 1"),
    ],
)
def test_an_option_that_is_wrong_is_named(redis_url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message), run(redis_url, **options):
        pytest.fail("it was accepted")


# Groups: a stream of some groups claims those alone, also after a crash.


def test_a_stream_of_two_groups_that_is_killed_gets_its_batch_again_and_nothing_of_the_others(
    redis_url: str, queue: LeasedQueue
) -> None:
    queue.admin.configure(groups="fair")
    for first, group in enumerate(("a", "b", "c, d", "")):
        queue.publish_many([{"n": 10 * first + number} for number in range(4)], group=group or None)
    chosen = {"groups": '["b", "c, d"]', "maxMessagesPerBatch": 6}
    with run(redis_url, **chosen) as first_run:
        start, end = first_run.at, first_run.next()
        batch = sorted(first_run.read(end))
        assert len(batch) == 6
    queue.publish_many([{"n": 4}], group="a")
    with run(redis_url, **chosen) as second:
        assert sorted(second.read(end)) == batch  # under the same checkpoint
        second.at = end
        rest = sorted(second.batch())
        assert sorted(batch + rest) == [*range(10, 14), *range(20, 24)]
        assert second.next() == second.at, "the others have messages, and are not for this stream"
        queue.publish_many([{"n": 14}], group="b")
        assert second.batch() == [14]
        second.next()
    assert start != end
    assert {group.name: group.waiting for group in queue.admin.groups()} == {"a": 5, "": 4}
    assert queue.stats().leased == 0


def test_a_stream_of_some_groups_bounds_a_batch_by_the_sizes_of_their_messages(
    redis_url: str, queue: LeasedQueue
) -> None:
    queue.admin.configure(groups="fair")
    queue.publish_many([{"n": number, "text": "x" * 10_000} for number in range(10)], group="large")
    publish_to = {"n": 0}
    queue.publish_many([publish_to] * 10, group="small")
    with run(redis_url, groups='["small"]', maxBytesPerBatch=2_000) as one:
        assert len(one.batch()) == 10


def test_a_stream_of_some_groups_is_refused_where_the_core_refuses(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 1)
    with run(redis_url, groups='["a"]') as plain, pytest.raises(ConfigurationError, match=f"rmq configure {QUEUE}"):
        plain.next()
    for wrong in ("a", '"a"', "[]", '["a\\"b"]', "[1]"):
        with pytest.raises(ConfigurationError, match="groups"), run(redis_url, groups=wrong):
            pass
