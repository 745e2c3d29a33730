from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.errors import QueueError
from rmq_core.streams import QueueConfig, stop_on_signals
from rmq_core.streams.state import StreamEntry, StreamKeys, decode, entries_of, read_entries

GIVEN = {"stream_key": "s", "consumer_group": "g", "consumer_name": "c"}


@pytest.mark.parametrize("name", ["claim_idle_ms", "block_ms", "max_read_count"])
@pytest.mark.parametrize("value", [0, -1, True, 0.5, "1"])
def test_numbers_of_a_config_are_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        QueueConfig(**GIVEN, **{name: value})


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("value", ["", "a\nb", b"bytes", None])
def test_names_of_a_config_are_texts(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a text"):
        QueueConfig(**{**GIVEN, name: value})


def test_a_consumer_cannot_take_the_name_of_a_lease() -> None:
    with pytest.raises(ConfigurationError, match="must not begin with '~'"):
        QueueConfig("s", "g", "~c")


def test_queues_opened_by_a_name_have_their_own_stream_and_consumer() -> None:
    first, second = QueueConfig.named("q"), QueueConfig.named("q")
    assert (first.stream_key, first.consumer_group) == ("rmq:{q}:stream", "rmq")
    assert first.consumer_name != second.consumer_name


@pytest.mark.parametrize(
    ("stream", "prefix"), [("orders", b"{orders}:"), ("a:{t}:b", b"a:{t}:b:"), ("rmq:{q}:stream", b"rmq:{q}:stream:")]
)
def test_keys_beside_a_stream_have_its_hash_tag(stream: str, prefix: bytes) -> None:
    keys = StreamKeys(stream)
    assert (keys.prefix, keys.stream) == (prefix, stream.encode())


@pytest.mark.parametrize("stream", ["a}b", "a{b", "{}a{b}", "}{"])
def test_braces_without_a_hash_tag_are_refused(stream: str) -> None:
    with pytest.raises(ConfigurationError, match="braces that are no hash tag"):
        StreamKeys(stream)


@pytest.mark.parametrize(
    "reply",
    [
        [[b"s", [[b"1-0", [b"data", b"{}"]]]]],
        {b"s": [[b"1-0", [b"data", b"{}"]]]},
        [[b"s", [(b"1-0", {b"data": b"{}"})]]],
        {"s": [[("1-0", {"data": "{}"})]]},
        [["s", [("1-0", {"data": "{}"})]]],
    ],
)
def test_a_read_is_parsed_in_every_format_that_clients_return(reply: Any) -> None:
    assert read_entries(reply) == [StreamEntry("1-0", b"{}")]


@pytest.mark.parametrize("reply", [None, [], {}])
def test_an_empty_read_is_no_entry(reply: Any) -> None:
    assert read_entries(reply) == []


def test_gaps_in_a_claim_are_passed_over() -> None:
    assert entries_of([None, [b"1-0", [b"x", b"y", b"data", b"1"]], (None, None)]) == [StreamEntry("1-0", b"1")]


@pytest.mark.parametrize(
    ("data", "why"),
    [(None, "no field data"), (b"{", "not JSON"), (b"\xff", "not JSON"), (b"[]", "no object"), (b"null", "no object")],
)
def test_the_error_for_a_malformed_entry_states_why_and_how_to_remove_it(data: bytes | None, why: str) -> None:
    with pytest.raises(QueueError, match=rf"entry 1-0 of stream 's' is malformed: .*{why}.*XACK") as raised:
        decode("s", "g", StreamEntry("1-0", data))
    assert (raised.value.queue, raised.value.message_id) == ("s", "1-0")


class Stopped:
    count = 0

    def stop(self) -> None:
        self.count += 1


def test_sigterm_stops_the_given_consumers_while_the_block_runs() -> None:
    """Section 5.1: upon stop() (or SIGTERM)."""
    first, second, former = Stopped(), Stopped(), signal.getsignal(signal.SIGTERM)
    with stop_on_signals(first, second):
        os.kill(os.getpid(), signal.SIGTERM)
        assert (first.count, second.count) == (1, 1)
    assert signal.getsignal(signal.SIGTERM) is former


def test_signals_can_be_chosen() -> None:
    stopped = Stopped()
    with stop_on_signals(stopped, signals=(signal.SIGUSR1, signal.SIGUSR2)):
        os.kill(os.getpid(), signal.SIGUSR2)
    assert stopped.count == 1


def test_signals_are_refused_outside_the_main_thread() -> None:
    raised: list[BaseException] = []

    def enter() -> None:
        try:
            with stop_on_signals(Stopped()):
                pass
        except ConfigurationError as error:
            raised.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert "in the main thread" in str(raised[0])
