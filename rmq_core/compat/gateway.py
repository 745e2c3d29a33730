"""The interface of a gateway, and the constructor of the built-in gateway, whose methods are in `gateway_methods`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from rmq_core.compat import checks
from rmq_core.compat.config import Backpressure, DeliverySettings, GatewayConfig, retries
from rmq_core.compat.gateway_methods import Channels
from rmq_core.compat.io_mode import IoMode, Stateful
from rmq_core.compat.stored import MessageData
from rmq_core.connection.clients import check_gateway_client, is_cluster
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler

R = TypeVar("R")
Flag = TypeVar("Flag")
Done = TypeVar("Done")
Claim = TypeVar("Claim")


class Gateway(ABC, Generic[Flag, Done, Claim]):
    """The interface that a queue uses. The type parameters are the return types of its blocking or asyncio methods.

    Override the properties that apply. A gateway whose claims expire must have
    `message_visibility_timeout_seconds` and return ClaimedMessage.
    """

    @property
    def is_redis_cluster(self) -> bool:
        """Whether the keys of a queue have to share a hash tag."""
        return False

    @property
    def max_delivery_count(self) -> int | None:
        """How often a message is delivered before it becomes a dead letter; None for no limit."""
        return None

    @property
    def dead_letter_queue(self) -> str | None:
        """The name of the queue of dead letters; None if there is none."""
        return None

    @abstractmethod
    def publish_message(self, queue: str, message: str, dedup_key: str) -> Flag:
        """Add a message unless `dedup_key` is remembered. Return whether it was added."""

    @abstractmethod
    def add_message(self, queue: str, message: str) -> Done:
        """Add a message."""

    @abstractmethod
    def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> Claim:
        """Claim the next message. Return None if there is none for some seconds, so that the queue can check its state.

        With a visibility timeout, return ClaimedMessage, whose token is the right to settle the message.
        """

    @abstractmethod
    def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> Flag:
        """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> Flag:
        """Delete a claimed message; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def renew_message_lease(
        self,
        queue: str,
        message: MessageData,
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> Flag:
        """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` is set."""

    @abstractmethod
    def trim_queue(self, queue: str, max_length: int) -> Done:
        """Trim a log to its newest entries."""


class RedisGatewayBase(Stateful[Channels]):
    """The gateway to the leased engine; `redis_client` is a redis-py client of this io_mode.

    Its methods take the queue names of `queue.key`.

    retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds: how long and how often calls are
      resent while Redis does not answer; a budget of 0 resends nothing. Publishing a message without deduplication is
      never resent.
    message_deduplication_log_ttl_seconds: for how long the same message counts as a duplicate, 3600 when None.
    message_wait_interval_seconds: how long to wait for a message, 5 when None, not at all when 0.
    message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue, max_pending_length,
      pending_overload_policy, pending_overload_block_timeout_seconds, interrupt: as in RedisMessageQueue.
    """

    _io_mode: ClassVar[IoMode]

    def __init__(
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
        check_gateway_client(redis_client, asynchronous=self._io_mode.asynchronous)
        if interrupt is not None:
            checks.instance("interrupt", interrupt, BaseGracefulInterruptHandler, "GracefulInterruptHandler()")
        ttl, wait = message_deduplication_log_ttl_seconds, message_wait_interval_seconds
        self.config = GatewayConfig(
            DeliverySettings(message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue),
            Backpressure(max_pending_length, pending_overload_policy, pending_overload_block_timeout_seconds),
            retries(
                retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds,
                None if interrupt is None else interrupt.is_interrupted,
            ),
            3600 if ttl is None else ttl,
            5 if wait is None else wait,
        )  # fmt: skip
        self._client = redis_client
        self._state = self.channels = Channels(self.config, redis_client, self._io_mode)

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
        """For how many seconds a claim holds its message; None for ever."""
        return self.config.delivery.visibility_timeout
