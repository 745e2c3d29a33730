from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_core import ConfigurationError, Match
from rmq_core.envelope import codec
from rmq_core.envelope.matching import has_parts

ROOT = Path(__file__).parents[3]
PATIENCE_S = 120
"""A generous watchdog: the work below takes some seconds, and hours if one step costs the square of a length."""


def stored(payload: str = "text", history: bytes = b"", headers: bytes = b"", message_id: str = "id-1") -> bytes:
    body = codec.body(message_id, "s", payload.encode(), headers)
    return b"1 1500 %d %b%b" % (len(history), history, body)


@pytest.mark.parametrize(
    ("where", "met"),
    [
        (Match(text="ex"), True),
        (Match(text="EX"), False),
        (Match(text="tenant"), False),
        (Match(header="tenant"), True),
        (Match(header="tenant=acme"), True),
        (Match(header="tenant=ac"), False),
        (Match(message_id="id-1"), True),
        (Match(message_id="id-"), False),
        (Match(reason="timeout after # s"), True),
        (Match(reason="timeout after 99 s"), True),
        (Match(reason="timeout"), False),
        (Match(reason="time*s"), True),
        (Match(reason="timeout after # s", text="ex", header="tenant", message_id="id-1"), True),
        (Match(reason="timeout after # s", text="nothing"), False),
    ],
)
def test_a_stored_and_a_decoded_message_meet_the_same_conditions(where: Match, *, met: bool) -> None:
    envelope = stored(history=b"nack\t5\tme\ttimeout after 3 s\n", headers=b'{"tenant":"acme"}')
    assert where.of_envelope(envelope) is met
    assert where.matches(codec.message_of(envelope)) is met


@pytest.mark.parametrize(
    ("where", "met"),
    [
        (Match(group="login as ***"), ["login as ***"]),
        (Match(reason="login as ***"), ["login as ***", "login as bob", "login as 7"]),
        (Match(group="login as #"), ["login as 7"]),
        (Match(group="login as 7"), []),
        (Match(group="login"), []),
        (Match(group="unknown"), [""]),
        (Match(group=f"{'long ' * 24}*"), ["long " * 40]),
        (Match(group="login as ***", reason="*bob"), []),
    ],
)
def test_a_group_is_met_exactly_and_a_reason_as_a_pattern(where: Match, met: list[str]) -> None:
    reasons = ["login as ***", "login as bob", "login as 7", "", "long " * 40, "long " * 24]
    envelopes = {each: stored(history=b"nack\t5\tme\t%b\n" % each.encode() if each else b"") for each in reasons}
    assert [each for each, envelope in envelopes.items() if where.of_envelope(envelope)] == met
    assert [each for each, envelope in envelopes.items() if where.matches(codec.message_of(envelope))] == met


class Searched(str):
    """A text that counts how often a part is looked for in it."""

    looks = 0

    def find(self, *given: Any) -> int:
        """Count, and find."""
        self.looks += 1
        return super().find(*given)


@given(st.text("ab*", max_size=30), st.text("ab", max_size=40))
def test_a_pattern_meets_what_a_regular_expression_meets_and_each_part_is_looked_for_once(
    pattern: str, text: str
) -> None:
    searched, parts = Searched(text), pattern.split("*")
    expected = re.fullmatch(".*".join(re.sub(r"\*+", "*", pattern).split("*")), text) is not None
    assert has_parts(searched, parts) is expected
    assert searched.looks <= len(parts)


HOSTILE = r"""
from rmq_core import Match
from rmq_core.envelope import codec
from rmq_core.envelope.reasons import generalized, last_failure
from rmq_console.serve.links import Links

SIZE = 60_000
parts = "a 1 a1 1. 1:a 0x a- - / @ a/ 1/ 12345678- 0123456789abcdef- * a*".split()
edges = [(start, end) for start in ("", "airflow:", "dagster ", "spark:") for end in ("", "!")]
texts = [start + part * (SIZE // len(part)) + end for part in parts for start, end in edges]
stored = codec.body("id", "s", b"text", b"")
for text in texts:
    history = b"nack\t5\tme\t%b\n" % text.encode()
    envelope = b"1 1500 %d %b%b" % (len(history), history, stored)
    generalized(last_failure(history).reason)
    Links().holder_of(text)
    for pattern in ("*a" * 4_000 + "b", "a*" * 4_000 + "b", "*" * 10_000 + "b", text[:10_000]):
        Match(reason=pattern).of_envelope(envelope)
    Match(text="a" * 5_000 + "b" + "a" * 4_000).of_envelope(envelope)
"""


def test_no_pattern_of_a_user_and_no_text_of_a_message_takes_the_square_of_its_length() -> None:
    subprocess.run([sys.executable, "-c", HOSTILE], cwd=ROOT, check=True, timeout=PATIENCE_S)


def test_a_message_without_headers_meets_no_condition_on_a_header() -> None:
    assert not Match(header="tenant").of_envelope(stored())


def test_text_that_is_no_message_meets_no_condition() -> None:
    assert not Match(text="e").of_envelope(b"no envelope")
    assert not Match(message_id="e").of_envelope(b"no envelope")


@pytest.mark.parametrize("given", [{}, {"text": ""}, {"reason": 7}, {"header": b"x"}])
def test_conditions_that_say_nothing_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Match(**given)  # type: ignore[arg-type]
