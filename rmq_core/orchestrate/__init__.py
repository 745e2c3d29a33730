"""Helpers that all orchestrators share: claims under a name, batches, handover, keeping a lease for a retry."""

from __future__ import annotations

from rmq_core.envelope.codec import PUBLISHERS
from rmq_core.kernel.base import tools_of
from rmq_core.observe.history import acting_as
from rmq_core.orchestrate.claiming import (
    Claimant,
    Claimed,
    OnSettled,
    Relation,
    Settleable,
    by_queue,
    check_on_settled,
    claim_as,
    conclude,
    has_left,
    kept_open,
    publishing_as,
    refuse_foreign,
    with_publisher,
)
from rmq_core.orchestrate.guard import DriverGuard, end_group
from rmq_core.orchestrate.handover import Handover, LeaseWatch, Resolve, Submission, check_secrets, resolve_secret
from rmq_core.orchestrate.limits import (
    ALERTS,
    AlertLimits,
    Counted,
    Exceeded,
    Grade,
    LimitBounds,
    StatsLimits,
    Threshold,
    claimable,
    counted,
    depth,
    repeat_after_s,
    unmet,
)
from rmq_core.orchestrate.outbox import Outbox, publishing_once
from rmq_core.policy import chosen_groups
from rmq_core.running import check_done, is_awaited

__all__ = [
    "ALERTS", "PUBLISHERS", "AlertLimits", "Claimant", "Claimed", "Counted", "DriverGuard", "Exceeded", "Grade",
    "Handover", "LeaseWatch", "LimitBounds", "OnSettled", "Outbox", "Relation", "Resolve", "Settleable", "StatsLimits",
    "Submission", "Threshold", "acting_as", "by_queue", "check_done", "check_on_settled", "check_secrets",
    "chosen_groups", "claim_as", "claimable", "conclude", "counted", "depth", "end_group", "has_left", "is_awaited",
    "kept_open", "publishing_as", "publishing_once", "refuse_foreign", "repeat_after_s", "resolve_secret", "tools_of",
    "unmet", "with_publisher",
]  # fmt: skip
