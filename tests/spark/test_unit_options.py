from __future__ import annotations

from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_spark.data_source import RmqDataSource
from rmq_spark.place.options import Option, OptionValues, duration, flag, one_of, size, text, whole

URL = text("url", secret=True)
QUEUE = text("queue", "the name of a queue")
BATCH = whole("batchSize").or_else(1000)
SINK = text("sinkId").or_else(None)
DECLARED = (URL, QUEUE, BATCH, SINK)
GIVEN = {"url": "redis://localhost", "queue": "work"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"qeue": "work"}, "has no option 'qeue' here; did you mean 'queue'"),
        ({"batchsizes": "1"}, "did you mean 'batchSize'"),
        ({"zzz": "1"}, "it has batchSize, queue, sinkId, url"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        OptionValues(GIVEN | given, DECLARED)


@pytest.mark.parametrize("mode", ["claim", "browse"])
def test_an_unknown_option_is_refused_when_a_frame_is_made(mode: str) -> None:
    with pytest.raises(ConfigurationError, match="has no option 'qeue' here; did you mean 'queue'"):
        RmqDataSource({"mode": mode, "qeue": "work"}).schema()


def test_a_missing_lease_names_the_two_ways_to_read_without_one() -> None:
    source = RmqDataSource(GIVEN)
    with pytest.raises(ConfigurationError, match=r"(?s)needs the option 'lease'.*claimed_batch.*mode=browse"):
        source.reader(source.schema())


@pytest.mark.parametrize("hook", ["reader", "streamReader"])
def test_the_error_for_options_that_a_table_lost_states_it(hook: str) -> None:
    source = RmqDataSource({})
    with pytest.raises(ConfigurationError, match=r"(?s)CREATE TEMPORARY VIEW v USING rmq.* WITH \('url'"):
        getattr(source, hook)(source.schema())


@pytest.mark.parametrize("given", [{"url": "redis://localhost"}, GIVEN | {"queue": ""}])
def test_a_missing_option_is_named_with_its_accepted_values(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="needs the option 'queue': the name of a queue"):
        OptionValues(given, DECLARED)


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        (whole("n"), "1", 1),
        (whole("n", 0), "0", 0),
        (flag("f"), "True", True),
        (flag("f"), "no", False),
        (one_of("mode", "claim", "browse"), "BROWSE", "browse"),
        (duration("lease"), "10 minutes", 600.0),
        (duration("lease"), "1 minute", 60.0),
        (duration("lease"), "500 ms", 0.5),
        (duration("lease"), "1.5h", 5400.0),
        (duration("lease"), "30", 30.0),
        (duration("delay", 0), "0", 0.0),
        (size("bytes"), "8m", 8 << 20),
        (size("bytes"), "64 MiB", 64 << 20),
        (size("bytes"), "1.5kb", 1536),
        (size("bytes"), "1000", 1000),
    ],
)
def test_the_text_of_an_option_is_converted_to_its_type(option: Option[Any], given: str, value: object) -> None:
    assert option.value(given) == value


@pytest.mark.parametrize(
    ("option", "given", "message"),
    [
        (whole("n"), "0", "option n must be a whole number >= 1, not '0'"),
        (whole("n"), "many", "option n must be a whole number >= 1, not 'many'"),
        (flag("f"), "maybe", "option f must be true or false, not 'maybe'"),
        (one_of("mode", "claim", "browse"), "look", "option mode must be one of claim, browse, not 'look'"),
        (duration("lease"), "soon", "option lease must be a time of at least 0.001 s such as '10 minutes'"),
        (duration("lease"), "0 s", "option lease must be a time of at least 0.001 s"),
        (duration("lease"), "-1 s", "not '-1 s'"),
        (duration("lease"), "3 fortnights", "not '3 fortnights'"),
        (size("bytes"), "large", "option bytes must be a size of at least 1 byte such as '8m'"),
        (size("bytes"), "0", "not '0'"),
    ],
)
def test_an_invalid_text_is_refused_with_a_hint(option: Option[Any], given: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        option.value(given)


def test_the_value_of_a_secret_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match=r"option port must be a number$"):
        Option("port", "a number", int, secret=True).value("canary")
