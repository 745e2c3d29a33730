"""Helpers that all orchestrators share: claims under a name, batches, handover, keeping a lease for a retry."""

from __future__ import annotations

from rmq_core.envelope.publishers import PUBLISHERS
from rmq_core.history import acting_as
from rmq_core.queue.base import tools_of
from rmq_core.work.claiming import (
    Claimant,
    Claimed,
    OnSettled,
    Relation,
    check_on_settled,
    claim_as,
    has_left,
    refuse_foreign,
)
from rmq_core.work.guard import DriverGuard, end_group
from rmq_core.work.handover import Handover, Submission, check_secrets
from rmq_core.work.keeping import Settleable, conclude
from rmq_core.work.lease_watch import LeaseWatch
from rmq_core.work.limits import ALERTS, AlertLimits, Exceeded, Grade, LimitBounds, StatsLimits
from rmq_core.work.publishing import by_queue, publishing_as, with_publisher
from rmq_core.work.secret_references import Resolve, resolve_secret
from rmq_core.work.threshold import Counted, Threshold, claimable, counted, depth, repeat_after_s

__all__ = [
    "ALERTS",
    "PUBLISHERS",
    "AlertLimits",
    "Claimant",
    "Claimed",
    "Counted",
    "DriverGuard",
    "Exceeded",
    "Grade",
    "Handover",
    "LeaseWatch",
    "LimitBounds",
    "OnSettled",
    "Relation",
    "Resolve",
    "Settleable",
    "StatsLimits",
    "Submission",
    "Threshold",
    "acting_as",
    "by_queue",
    "check_on_settled",
    "check_secrets",
    "claim_as",
    "claimable",
    "conclude",
    "counted",
    "depth",
    "end_group",
    "has_left",
    "publishing_as",
    "refuse_foreign",
    "repeat_after_s",
    "resolve_secret",
    "tools_of",
    "with_publisher",
]
