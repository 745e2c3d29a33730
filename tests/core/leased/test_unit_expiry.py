from __future__ import annotations

import pytest

from rmq_core.errors import ScriptFailed
from rmq_core.leased.claiming import claim, grant, requested
from rmq_core.leased.expiring import OVERDUE, bury
from rmq_core.leased.inspecting import backlog
from tests.core.by_hand import drive
from tests.core.leased.by_hand import engine, scripts

READY = [1, b"1000", 2000, b"", [], [], 0, b"1"]
NONE = [0, b"", 2000, b"", [OVERDUE], [], 0, b"1"]


def test_a_backlog_is_read_again_although_another_client_told_of_what_expired() -> None:
    found, wants = drive(backlog(engine()), [NONE, b"expired 0", READY])
    assert found.ready == 1
    assert scripts(wants) == ["backlog", "expire", "backlog"]


def test_a_claim_that_met_too_many_expired_messages_claims_again() -> None:
    empty = [b"empty 0 1000", [OVERDUE], []]
    found, wants = drive(claim(engine()), [empty, b"expired 3 a b", b"expired 0 c", [b"empty 0 1000", [], []]])
    assert found is None
    assert scripts(wants) == ["claim", "expire", "expire", "claim"]


def test_a_caller_who_reclaims_leases_itself_gets_their_ids_alone() -> None:
    late: list[bytes] = []
    of = engine()
    replies = [[b"empty 0 1000", [b"lease", OVERDUE], []], b"expired 0 a", [b"empty 0 1000", [], []]]
    assert drive(grant(of, requested(of), 0, late), replies)[0] is None
    assert late == [b"lease"]


def test_another_reply_is_an_error() -> None:
    with pytest.raises(ScriptFailed, match="superseded"):
        drive(bury(engine()), [b"superseded"])
