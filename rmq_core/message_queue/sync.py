"""`RedisMessageQueue` and its gateways, blocking: what differs from `aio` and nothing else."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from time import perf_counter
from typing import Any, TypeVar

from rmq_core.errors import RedisMessageQueueError
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.message_queue import checks, consuming, draining, operating, publishing, verbs
from rmq_core.message_queue.base import MessageQueueBase
from rmq_core.message_queue.consuming import LEFT_ALONE, NotAcknowledged
from rmq_core.message_queue.gate import World
from rmq_core.message_queue.gateway import Gateway, Job, RedisGatewayBase
from rmq_core.message_queue.heartbeat import Heartbeat
from rmq_core.message_queue.operating import QueueStats
from rmq_core.message_queue.steps import run
from rmq_core.message_queue.stored import ClaimedMessage, MessageData

R = TypeVar("R")


class AbstractRedisGateway(Gateway, ABC):
    """Redis as a queue sees it. Subclass it to store messages your way; the queue checks what each method returns.

    The heartbeat calls `renew_message_lease` from a thread of its own while others are called.
    """

    @abstractmethod
    def publish_message(self, queue: str, message: str, dedup_key: str) -> bool:
        """Add a message unless `dedup_key` is remembered; whether it was added."""

    @abstractmethod
    def add_message(self, queue: str, message: str) -> None:
        """Add a message."""

    @abstractmethod
    def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> ClaimedMessage | MessageData | None:
        """Claim the next message; None when there is none for some seconds, so that the queue can look around.

        With a visibility timeout, return ClaimedMessage, whose token is the right to settle the message.
        """

    @abstractmethod
    def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> bool:
        """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> bool:
        """Forget a claimed message; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def renew_message_lease(
        self,
        queue: str,
        message: MessageData,
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> bool:
        """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` says so."""

    @abstractmethod
    def trim_queue(self, queue: str, max_length: int) -> None:
        """Cut a log to its newest entries."""


class RedisGateway(RedisGatewayBase, AbstractRedisGateway):
    """The gateway to the leased engine; `redis_client` is a redis-py client of this world.

    Queues go by the names of `queue.key`.

    retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds: how long and how densely calls are
      repeated while Redis does not answer; a budget of 0 repeats nothing. Messages without deduplication are published
      once.
    message_deduplication_log_ttl_seconds: how long a message counts as published before, 3600 when None.
    message_wait_interval_seconds: how long to wait for a message, 5 when None, not at all when 0.
    message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue, max_pending_length,
      pending_overload_policy, pending_overload_block_timeout_seconds, interrupt: as in RedisMessageQueue.
    """

    _asynchronous = False

    def publish_message(self, queue: str, message: str, dedup_key: str) -> bool:
        return self._do(self._publish(queue, message, dedup_key))

    def add_message(self, queue: str, message: str) -> None:
        self._do(self._publish(queue, message, None))

    def wait_for_message_and_move(
        self,
        from_queue: str,
        to_queue: str,  # noqa: ARG002  the lease knows
    ) -> ClaimedMessage | MessageData | None:
        return self._claimed(self._do(self._wait(from_queue)))

    def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> bool:
        return self._do(self._finish(from_queue, message, lease_token, to_queue))

    def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> bool:
        return self._do(self._finish(queue, message, lease_token))

    def renew_message_lease(
        self,
        queue: str,
        message: MessageData,  # noqa: ARG002  the token says it all
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> bool:
        return self._do(self._renew(queue, lease_token, is_interrupted))

    def trim_queue(self, queue: str, max_length: int) -> None:
        self._do(self._on_part(queue, verbs.trim, max_length))

    def queue_length(self, queue: str) -> int:
        """How many messages a part of a queue holds."""
        return self._do(self._on_part(queue, verbs.length))

    def peek_messages(self, queue: str, count: int) -> list[MessageData]:
        """Payloads of a part of a queue: the next ones of what waits, the newest of a log."""
        return self._shown(self._do(self._on_part(queue, verbs.peek, count)))

    def redrive_messages(
        self,
        from_queue: str,  # noqa: ARG002  there is one place for dead letters
        to_queue: str,
        max_messages: int | None = None,
    ) -> int:
        """Move the oldest dead letters back with a fresh delivery budget; how many."""
        return self._do(self._on_part(to_queue, verbs.redrive, max_messages))

    def purge_queue(self, queue: str) -> int:
        """Delete what a part of a queue holds; how many messages."""
        return self._do(self._on_part(queue, verbs.purge))

    def recover_claims(self, queue: str, budget_s: float | None = None) -> bool:
        """Give back what claims took whose answer never came, within some seconds; whether nothing of it is left."""
        return self._do(self._recover(queue, budget_s))

    def _driver(self, prefix: bytes, retry_budget_s: float) -> Any:
        from rmq_core.exchange.public import shared, sync_driver  # noqa: PLC0415  loads redis-py

        return shared(sync_driver, self._client, prefix, retry_budget_s)

    def _do(self, job: Job[R]) -> R:
        try:
            result: R = job.channel.driver.run(job.exchange, job.patience)
        except RedisMessageQueueError as error:
            known = job.meant(error)
            raise known from known.__cause__
        return result


class RedisMessageQueue(MessageQueueBase):  # noqa: D101  inherited
    __doc__ = MessageQueueBase.__doc__
    _asynchronous, _gateway_class, _built_in = False, AbstractRedisGateway, RedisGateway
    _world = World(time.sleep, threading.get_ident)

    def publish(self, message: str | dict[str, Any]) -> bool:
        """Add a message: text, or a dict that is delivered as JSON. False for a duplicate.

        Raises TypeError for anything else and for keys that are not str, ValueError for NaN and lone surrogates,
        QueueBackpressureError when there is no room, QueueDrainedError after `drain`.
        """
        return run(publishing.publish(self._body, message))

    @contextmanager
    def process_message(self) -> Iterator[MessageData | None]:
        """Wait some seconds for a message; None when there is none. str if the client decodes, else bytes.

        The message is done when the block ends, and also, for the failed log if there is one, when it raises.
        KeyboardInterrupt, SystemExit and GeneratorExit leave it to be delivered again. Raises CleanupFailedError when
        the block succeeded but Redis could not be told.
        """
        body = self._body
        delivery = run(consuming.claim(body))
        if delivery is None:
            yield None
            return
        heartbeat = consuming.start(Heartbeat, body, delivery)
        began = perf_counter()
        try:
            yield delivery.message
        except BaseException as error:
            heartbeat.end()
            if not isinstance(error, LEFT_ALONE):
                run(consuming.fail(body, delivery, error, began))
            raise
        else:
            heartbeat.end()
            run(consuming.succeed(body, delivery, began))
        finally:
            heartbeat.stop()

    def process_message_callback(self, handler: Callable[[MessageData], object]) -> bool:
        """Process the next message by a function; whether there was a message.

        Raises TypeError, and leaves the message to be delivered again, when the function would have to be awaited.
        """
        try:
            with self.process_message() as message:
                if message is None:
                    return False
                if isawaitable(result := handler(message)):
                    checks.dispose(result)
                    raise NotAcknowledged  # noqa: TRY301  past the end of the block, for which it is not done
        except NotAcknowledged:
            raise TypeError("'handler' returned an awaitable; use RedisMessageQueue of rmq_core.asyncio") from None
        return True

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new work: `publish` raises, `process_message` gives None. Messages being processed are left to end.

        Waits at most `timeout` seconds for publishes under way and gives back claims that may have been granted unseen.
        False when something is left; call it again. A timeout of 0 only tells. Other objects on this queue go on.
        """
        return run(draining.drain(self._body, timeout))

    def close(self, timeout: float | None = None) -> bool:
        """The same as `drain`."""
        return self.drain(timeout)

    def stats(self) -> QueueStats:
        """How many messages each part of the queue holds."""
        return run(operating.stats(self._body))

    def peek(self, count: int = 1, *, source: str = "pending") -> list[MessageData]:
        """Messages of `pending`, `processing`, `completed`, `failed` or `dead_letter`; they stay where they are."""
        return run(operating.peek(self._body, count, source))

    def redrive_dead_letters(self, max_messages: int | None = None) -> int:
        """Let the oldest dead letters be delivered again, as often as new ones; how many."""
        return run(operating.redrive(self._body, max_messages))

    def purge(self, *, target: str) -> int:
        """Delete all messages of `pending`, `completed`, `failed` or `dead_letter`; how many."""
        return run(operating.purge(self._body, target))
