from __future__ import annotations

from typing import Any

import pytest

from rmq_core.cli import facts
from rmq_core.cli.facts import Allowed, Facts, gather
from rmq_core.cli.requirements import needed
from rmq_core.errors import ScriptFailed

NEEDS = needed("leased", "orders")


def gathered(answers: dict[str, Any]) -> Facts:
    """Run the queries against replies by the first words of a command; a command without a reply is refused."""
    exchange = gather(NEEDS)
    want = next(exchange)
    while True:
        words = " ".join(map(str, want.args[:3]))  # type: ignore[union-attr]
        known = [answer for beginning, answer in answers.items() if words.startswith(beginning)]
        try:
            want = exchange.send(known[0]) if known else exchange.throw(ScriptFailed("NOPERM"))
        except StopIteration as stop:
            result: Facts = stop.value
            return result


def test_a_user_without_rights_leaves_all_facts_unknown() -> None:
    assert gathered({}) == Facts({}, needs=NEEDS, allowed=Allowed(scripts="NOPERM"))


@pytest.mark.parametrize("reply", [{b"save": b"60 1"}, [b"save", b"60 1"], {"save": "60 1"}])
def test_settings_are_read_in_every_form_a_client_gives_them(reply: object) -> None:
    assert gathered({"CONFIG GET save": reply}).save == "60 1"


def test_info_of_a_cluster_client_is_that_of_one_node() -> None:
    node = {"redis_version": "7.0.0"}
    assert gathered({"INFO": {"127.0.0.1:7000": node, "127.0.0.1:7001": node}}).info == node


def test_permissions_are_unknown_before_redis_7() -> None:
    asked = gathered({"EVAL return 1": 1, "EVAL return redis.acl_check_cmd": 0})
    assert asked.allowed == Allowed()


def test_the_clock_difference_allows_for_the_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([100.0, 100.2] * 3)
    monkeypatch.setattr(facts.time, "time", lambda: next(ticks))
    assert gathered({"TIME": (100, 100_000)}).skew_s == 0
    assert gathered({"TIME": (90, 0)}).skew_s == 10
    assert gathered({"TIME": (110, 200_000)}).skew_s == pytest.approx(-10)
