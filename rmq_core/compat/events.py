"""The names of the events of RedisMessageQueue."""

from __future__ import annotations

from enum import StrEnum


class EventOperation(StrEnum):
    """The steps of messages and leases of a RedisMessageQueue; other queues emit an Operation."""

    PUBLISH = "publish"
    PUBLISH_DEDUP_HIT = "publish_dedup_hit"
    CLAIM = "claim"
    CLAIM_EMPTY = "claim_empty"
    CLAIM_RECLAIM = "claim_reclaim"
    ACK = "ack"
    NACK = "nack"
    DLQ = "dlq"
    COMPLETED = "completed"
    FAILED = "failed"
    LEASE_RENEW = "lease_renew"
    LEASE_RENEW_FAILED = "lease_renew_failed"
    HEARTBEAT_STOP_TIMEOUT = "heartbeat_stop_timeout"
    STALE_LEASE_ACK = "stale_lease_ack"
    STALE_LEASE_NACK = "stale_lease_nack"
    CLEANUP_FAILED = "cleanup_failed"
    TRIM_FAILED = "trim_failed"
    RETRY_ATTEMPT = "retry_attempt"
    RETRY_EXHAUSTED = "retry_exhausted"
