"""What the gateways of both worlds share: their settings, and each verb as a job for an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from rmq_core.clients import check_gateway_client, decodes, is_cluster
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError
from rmq_core.events import EventOperation
from rmq_core.exchange import Exchange, Patience
from rmq_core.ids import new_id
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.message_queue import checks, verbs
from rmq_core.message_queue.channels import Channel, Channels
from rmq_core.message_queue.config import Backpressure, Delivery, GatewayConfig, Retries
from rmq_core.message_queue.errors import in_redis_terms
from rmq_core.message_queue.stored import (
    ClaimedMessage,
    Grant,
    HeldBytes,
    HeldText,
    MessageData,
    held,
    lease_of,
    token_text,
)

R = TypeVar("R")

giving_up: ContextVar[Callable[[], bool] | None] = ContextVar("giving_up", default=None)
"""Set by a queue around verbs that wait, for a message or for room: true as soon as the queue is drained."""


class Gateway:
    """What a queue reads of a gateway besides its methods. Override what applies.

    A gateway whose claims expire must have `message_visibility_timeout_seconds` and return ClaimedMessage.
    """

    @property
    def is_redis_cluster(self) -> bool:
        """Whether the keys of a queue have to share a hash tag."""
        return False

    @property
    def max_delivery_count(self) -> int | None:
        """How often a message is delivered before it becomes a dead letter."""
        return None

    @property
    def dead_letter_queue(self) -> str | None:
        """The name of the place for dead letters."""
        return None


class Job(NamedTuple, Generic[R]):
    """A verb, ready to run. `attempt` names a wait for a message, of whose retries the queue is told."""

    channel: Channel
    exchange: Exchange[R]
    patience: Patience
    attempt: str | None = None

    def meant(self, error: RedisMessageQueueError) -> Exception:
        """The error that the caller of the verb expects."""
        known = in_redis_terms(error, resent=self.patience.budget_s is not None)
        if self.attempt and isinstance(error, QueueUnavailable) and error.__cause__ is not None:
            self.channel.note(EventOperation.RETRY_EXHAUSTED, self.attempt, error.__cause__)
        return known


class RedisGatewayBase:
    """RedisGateway without the difference between calling and awaiting."""

    _asynchronous: bool

    def __init__(  # noqa: PLR0913  the documented signature
        self,
        *,
        redis_client: Any,
        retry_budget_seconds: int = 120,
        retry_max_delay_seconds: float = 5.0,
        retry_initial_delay_seconds: float = 0.01,
        message_deduplication_log_ttl_seconds: int | None = None,
        message_wait_interval_seconds: int | None = None,
        message_visibility_timeout_seconds: int | None = None,
        max_delivery_count: int | None = None,
        dead_letter_queue: str | None = None,
        max_pending_length: int | None = None,
        pending_overload_policy: str = "raise",
        pending_overload_block_timeout_seconds: float = 1.0,
        interrupt: BaseGracefulInterruptHandler | None = None,
    ) -> None:
        check_gateway_client(redis_client, asynchronous=self._asynchronous)
        if interrupt is not None:
            checks.instance("interrupt", interrupt, BaseGracefulInterruptHandler, "GracefulInterruptHandler()")
        ttl, wait = message_deduplication_log_ttl_seconds, message_wait_interval_seconds
        self.config = GatewayConfig(
            Delivery(message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue),
            Backpressure(max_pending_length, pending_overload_policy, pending_overload_block_timeout_seconds),
            Retries(retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds),
            3600 if ttl is None else ttl,
            5 if wait is None else wait,
        )
        self.channels = Channels(self.config, self._driver)
        self._client, self._decode = redis_client, decodes(redis_client)
        self._interrupted = None if interrupt is None else interrupt.is_interrupted
        self._plain_patience = self._patience()

    @property
    def is_redis_cluster(self) -> bool:
        return is_cluster(self._client)

    @property
    def max_delivery_count(self) -> int | None:
        return self.config.delivery.max_count

    @property
    def dead_letter_queue(self) -> str | None:
        return self.config.delivery.dead_letter_queue

    @property
    def message_visibility_timeout_seconds(self) -> int | None:
        """For how long a claim holds its message; None for ever."""
        return self.config.delivery.visibility_timeout

    def _driver(self, prefix: bytes, retry_budget_s: float) -> Any:
        raise NotImplementedError

    def _patience(
        self,
        *,
        most_s: float | None = None,
        given_up: Callable[[], bool] | None = None,
        noticed: Callable[[Exception], object] | None = None,
    ) -> Patience:
        retries = self.config.retries
        budget = retries.budget if most_s is None else min(most_s, retries.budget)
        return Patience(
            budget if retries.budget else None,
            retries.first,
            retries.longest,
            either(self._interrupted, given_up),
            noticed,
        )

    def _publish(self, queue: str, message: str, dedup_key: str | None) -> Job[bool]:
        channel, _ = self.channels.find(queue)
        patience = self._patience(given_up=giving_up.get())
        if dedup_key is None:  # the caller decides whether to publish again
            patience = patience._replace(budget_s=None)
        return Job(channel, verbs.publish(channel.engine, message, dedup_key), patience)

    def _wait(self, queue: str) -> Job[Grant | None]:
        channel, _ = self.channels.find(queue)
        wait_s, attempt = self.config.wait, new_id()
        patience = self._patience(
            most_s=wait_s,
            given_up=giving_up.get(),
            noticed=lambda error: channel.note(EventOperation.RETRY_ATTEMPT, attempt, error),
        )
        claim = verbs.nothing(None) if patience.over else verbs.claim(channel.engine, wait_s)
        return Job(channel, claim, patience, attempt)

    def _finish(self, queue: str, message: MessageData, token: str | None, log: str | None = None) -> Job[bool]:
        channel, _ = self.channels.find(queue)
        lease = lease_of(channel.engine.name, message, token)
        if lease is None:
            return Job(channel, verbs.nothing(False), self._plain_patience)
        part = None if log is None else self.channels.log(log)
        return Job(channel, verbs.finish(channel.engine, lease, part), self._plain_patience)

    def _renew(self, queue: str, token: str, over: BaseGracefulInterruptHandler | None) -> Job[bool]:
        channel, _ = self.channels.find(queue)
        timeout, lease = self.message_visibility_timeout_seconds, lease_of(channel.engine.name, "", token)
        if timeout is None or lease is None:
            return Job(channel, verbs.nothing(False), self._plain_patience)
        patience = self._patience(most_s=timeout, given_up=over.is_interrupted if over else None)
        return Job(channel, verbs.renew(channel.engine, lease), patience)

    def _on_part(self, queue: str, verb: Callable[..., Exchange[R]], *args: Any) -> Job[R]:
        channel, part = self.channels.find(queue)
        return Job(channel, verb(channel.engine, part, *args), self._plain_patience)

    def _recover(self, queue: str, budget_s: float | None) -> Job[bool]:
        channel, _ = self.channels.find(queue)
        patience = self._patience(most_s=budget_s)._replace(given_up=None)
        if budget_s is not None:
            until = monotonic() + budget_s
            patience = patience._replace(given_up=lambda: monotonic() >= until, hurried=True)
        return Job(channel, verbs.recover(channel.engine), patience)

    def _claimed(self, grant: Grant | None) -> ClaimedMessage | HeldText | HeldBytes | None:
        if grant is None:
            return None
        stored = held(grant, decode=self._decode)
        if self.message_visibility_timeout_seconds is None:
            return stored
        return ClaimedMessage(stored, token_text(grant.lease))

    def _shown(self, payloads: list[bytes]) -> list[MessageData]:
        return [payload.decode() if self._decode else payload for payload in payloads]


def either(one: Callable[[], bool] | None, other: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """True when one of two says so."""
    if one is None or other is None:
        return one or other
    return lambda: one() or other()
