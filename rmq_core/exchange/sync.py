"""The blocking driver: runs operations over a redis-py client's own connections (see `pools`).

It packs commands itself and reads replies undecoded, so that a call costs less than redis-py's. Every call is safe to
resend (see `resending`), so it resends on any lost connection within the retry budget.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import tenacity
from redis import exceptions as errors

from rmq_core.connection.clients import is_cluster
from rmq_core.envelope.codec import process
from rmq_core.errors import WrongKeyType, hopeless, translate
from rmq_core.exchange import (
    Across,
    At,
    Beside,
    Call,
    Chain,
    Command,
    Exchange,
    Interrupted,
    Patience,
    Pipeline,
    Sleep,
    Want,
    resending,
)
from rmq_core.exchange.frames import (
    FAILURES,
    NOT_RETRYABLE,
    RETRYABLE,
    Frame,
    Plan,
    answer,
    asked_elsewhere,
    asked_last,
    asking,
    at_once,
    is_healthy,
    plan,
    raise_retryable,
    raised,
    unknown_script,
)
from rmq_core.exchange.loading import LAYOUTS
from rmq_core.exchange.pools import SyncShare, share_of
from rmq_core.exchange.scripts import RESENDS, Slots, explained, laid_out

R = TypeVar("R")
W = TypeVar("W", Plan, Command)
_GRACE_S = 5.0
_WITHOUT_A_PLAN = (At, Across, Sleep, Command)


class _Part:
    """One of several requests that are sent together. got: the replies to it, or the error of the first attempt."""

    plan: Plan | None = None
    pool: Any = None
    got: Any = None

    def __init__(self, driver: SyncDriver, want: Want) -> None:
        self.driver, self.want = driver, want


class SyncDriver:
    """Runs exchanges for one queue. Threads may share it; a forked child opens connections of its own.

    beside: what it reads now and then with the same writes. layouts: those that the queue may have. node: that of a
    cluster to which it sends, whatever node has the slot of the queue.
    """

    beside: Beside | None = None
    layouts: tuple[str, ...] = tuple(LAYOUTS)
    node: Any = None

    def __init__(self, client: Any, prefix: bytes, retry_budget_s: float) -> None:
        self.client = client
        self._key = prefix
        self._slots = Slots(prefix, retry_budget_s)
        self._patience = Patience(retry_budget_s)
        self._held: tuple[Any, SyncShare] | None = None
        self._asked: Any = None
        self._stale = False
        """Whether a cluster has to be read again, and the node of it that was asked before."""
        self._budget_s = retry_budget_s
        self._shards: dict[bytes, SyncDriver] = {}

    def run(self, exchange: Exchange[R], patience: Patience | None = None) -> R:
        """Run an operation to its end and return its result; `patience` replaces the driver's own."""
        patience, laid = patience or self._patience, 0
        try:
            want = next(exchange)
            while True:
                try:
                    reply = self.perform(want, patience)
                except FAILURES as error:
                    failure = translate(error)
                    again = None
                    if isinstance(failure, WrongKeyType) and laid < RESENDS:
                        again, laid = self.run(laid_out(want), patience), laid + 1
                    want = again or exchange.throw(failure)
                except BaseException as error:  # the operation decides what an interruption means
                    want = exchange.throw(error)
                else:
                    want, laid = exchange.send(reply), 0
        except StopIteration as stop:
            result: R = stop.value
            return result
        except WrongKeyType as error:
            known = self.run(explained(self._key, error, self.layouts), patience)
            raise known from known.__cause__

    @property
    def connected(self) -> bool:
        """Whether a connection is open: a request needs no new one, which could take long or outlive its client."""
        return self._held is not None and self._held[1].connected

    def close(self) -> None:
        """Return the connections that no call uses to the client's pool."""
        for driver in (self, *self._shards.values()):
            driver.give_back()

    def give_back(self) -> None:
        """Return the idle connections that this driver uses to their pool."""
        if self._held is not None:
            pool, share = self._held
            share.give_back(pool)

    def perform(self, want: Want, patience: Patience) -> Any:
        """Return the reply to a request."""
        if isinstance(want, _WITHOUT_A_PLAN):
            return self._otherwise(want, patience)
        planned, beside = plan(want, self._slots), self.beside
        if beside is not None and (
            monotonic() >= beside.look_at or planned.name in beside.unrecorded or planned.block_ms
        ):
            planned = planned._replace(beside=beside)
        if patience.given_up and (planned.block_ms or patience.hurried):
            planned = planned._replace(given_up=patience.given_up)
        try:
            replies = self._persist(self._round, planned, planned.again(), patience)
        finally:
            planned.release(self._slots)
        return answer(want, planned, replies)

    def _otherwise(self, want: Any, patience: Patience) -> Any:
        """Return the reply to a request that is not sent as a plan."""
        if isinstance(want, At):
            return self._shard(want.prefix).perform(want.want, patience)
        if isinstance(want, Across):
            return self._across(want, resending.aside() if want.hurry else patience)
        if isinstance(want, Sleep):
            self._nap(patience, want.seconds)
            if patience.over:
                raise Interrupted
            return None
        if want.aside and is_cluster(self.client):
            return self._aside(want)
        return self._persist(self._plain, want, want, patience)

    def _shard(self, prefix: bytes) -> SyncDriver:
        """Return the driver of a shard of this queue."""
        if prefix == self._key:
            return self
        return self._shards.get(prefix) or self._shards.setdefault(
            prefix, type(self)(self.client, prefix, self._budget_s)
        )

    def _across(self, want: Across, patience: Patience) -> list[Any]:
        """Return the replies to requests at several shards; the first attempt of all is made together."""
        parts = [_Part(self._shard(prefix), each) for prefix, each in want.parts]
        try:
            for part in parts:
                part.got = part.driver.planned(part)
            self._send_together([part for part in parts if part.plan is not None and part.got is None], patience)
            return [part.driver.answer(part, patience) for part in parts]
        finally:
            for part in parts:
                part.driver.release(part)

    def planned(self, part: _Part) -> Exception | None:
        """Plan a request to this shard, and find the pool of its node; return the error that prevents that."""
        want = Pipeline((part.want,)) if isinstance(part.want, Command) else part.want
        if isinstance(want, Call | Chain | Pipeline):
            part.plan = plan(want, self._slots)
            try:
                part.pool = (self._held or self._hold())[0]
            except FAILURES as error:
                return error
        return None

    def release(self, part: _Part) -> None:
        if part.plan is not None:
            part.plan.release(self._slots)

    def _send_together(self, parts: Sequence[_Part], patience: Patience) -> None:
        """Send the plans of each node in one write, and then read the replies of all, or note what went wrong."""
        sent = []
        try:
            for pool in sorted({id(part.pool) for part in parts}):  # in one order: no thread waits for another's
                some = [part for part in parts if id(part.pool) == pool]
                sending = some[0].driver.sending([part.plan for part in some], patience.given_up)
                sent.append((sending, some))
                _go_on(sending, some)
            for sending, some in sent:
                _go_on(sending, some)
        finally:
            for sending, _ in sent:
                sending.close()

    def sending(
        self, plans: Sequence[Any], given_up: Callable[[], bool] | None
    ) -> Generator[None, None, list[list[Any]]]:
        """Send plans in one write, and then yield; read the replies of each when resumed."""
        pool, share = self._held or self._hold()
        connection = share.take(pool)
        try:
            connection.send_packed_command((b"".join(planned.packed() for planned in plans),), check_health=False)
            yield
            if given_up:
                _listen(connection, 0, given_up)
            return [[_read(connection) for _ in range(planned.expected)] for planned in plans]
        except BaseException:
            connection.disconnect()
            raise
        finally:
            share.idle.append(connection)
            if len(share.idle) > share.kept or share.turn.locked():
                share.give_back(pool, share.kept)

    def answer(self, part: _Part, patience: Patience) -> Any:
        """Return the answer to a request to this shard, or its error; send it again if the first attempt failed."""
        want, planned = part.want, part.plan
        try:
            if planned is None:
                return self.perform(want, patience)
            found = self._persist(partial(self._received, part), planned, planned, patience)
            if isinstance(want, Command):
                return answer(Pipeline((want,)), planned, found)[0]
            return answer(want, planned, found)  # type: ignore[arg-type]
        except (*FAILURES, Interrupted) as error:
            return resending.failed(error)

    def _received(self, part: _Part, planned: Plan) -> list[Any]:
        replies, part.got = part.got, None
        if isinstance(replies, Exception):
            raise replies
        if replies is None or unknown_script(replies):
            return self._exchange(planned)
        raise_retryable(replies)
        return planned.outcomes(replies)

    def _persist(self, send: Callable[[W], Any], first: W, again: W, patience: Patience) -> Any:
        try:
            return send(first)
        except NOT_RETRYABLE:
            raise
        except RETRYABLE as error:
            self._drop(error)
            if patience.once or hopeless(error):
                raise
            if patience.budget_s is None:
                return self._as_the_client_would(partial(send, again), error)
            if patience.over:
                raise
            resending.notice(patience, error)
        retrying = tenacity.Retrying(
            sleep=lambda seconds: self._nap(patience, seconds),
            after=lambda state: self._drop(resending.failure_of(state)),
            **resending.terms(patience),
        )
        return retrying(send, again)

    def _as_the_client_would(self, send: Callable[[], Any], error: Exception) -> Any:
        retry = resending.clients_own(self.client)
        if retry is None:
            raise error
        return retry.call_with_retry(resending.failed_once(error, send), self._drop)

    def _nap(self, patience: Patience, seconds: float) -> None:
        for part in resending.naps(patience, seconds):
            if patience.over:
                return
            time.sleep(part)

    def _plain(self, command: Command) -> Any:
        return self.client.execute_command(*command.args)

    def _aside(self, command: Command) -> Any:
        """Send a command to the node of its key, without the client's own retries; return None if it fails."""
        if resending.rests(self.client):
            return None
        driver, patience = type(self)(self.client, command.key, 0), resending.aside()
        send = partial(driver._directly, given_up=patience.given_up)
        try:
            return driver._persist(send, command, command, patience)
        except NOT_RETRYABLE:
            raise
        except (*RETRYABLE, Interrupted):
            driver._read_again()
            return resending.rest(self.client)
        finally:
            driver.close()

    def _directly(self, command: Command, given_up: Callable[[], bool] | None = None) -> Any:
        """Send a command over a connection of this driver."""
        (reply,) = self._exchange(Plan([Frame(command.args)], given_up=given_up))
        return raised(reply)

    def _round(self, planned: Plan) -> list[Any]:
        if not planned.block_ms:
            return self._exchange(planned)
        share = (self._held or self._hold())[1]
        blocking = share.blocking
        if not blocking.acquire(blocking=False):
            return self._polled(planned, share)
        try:
            return self._exchange(planned)
        finally:
            blocking.release()

    def _polled(self, planned: Plan, share: SyncShare | None = None) -> list[Any]:
        """Do what a request does that blocks in Redis, with requests that do not block."""
        reply, look = None, Plan([at_once(planned.frames[0])])
        for pause_s in resending.looks(planned, share.polling if share else deque()):
            with share.looking if share else contextlib.nullcontext():
                (reply,) = self._exchange(look)
            if reply not in resending.NOTHING:
                break
            time.sleep(pause_s)
        return [reply] if planned.alone else self._exchange(planned.again())

    def _exchange(self, planned: Plan) -> list[Any]:
        replies = self._send(planned.packed(), planned.expected, planned.block_ms, planned.given_up)
        if unknown_script(replies):
            planned = planned.again()
            replies = self._send(planned.packed(whole_scripts=True), planned.expected, 0)
        try:
            raise_retryable(replies)
        except errors.AskError as error:
            self._follow(error, planned, replies)
        return planned.outcomes(replies)

    def _follow(self, error: errors.AskError, planned: Plan, replies: list[Any]) -> None:
        """Replace the refusals of keys that have moved by the replies of the node to which their slot is moving."""
        asked = asked_elsewhere(planned, replies)
        node = self.client.get_node(*self.client.nodes_manager.remap_host_port(error.host, error.port))
        if node is None:  # the client does not know it yet
            raise error
        there = type(self)(self.client, self._key, 0)
        there.node = node
        answers = there._send(asking(asked.values()), 2 * len(asked), 0, planned.given_up)[1::2]
        raise_retryable(answers)
        for at, reply in zip(asked, answers, strict=True):
            replies[at] = reply

    def _send(
        self, packed: bytes, expected: int, block_ms: int, given_up: Callable[[], bool] | None = None
    ) -> list[Any]:
        pool, share = self._held or self._hold()
        idle = share.idle
        try:  # as `take` does, without a call of a function
            connection = idle.pop() if share.pid == process.id else share.take(pool)
        except IndexError:
            connection = share.take(pool)
        try:
            connection.send_packed_command((packed,), check_health=False)
            if block_ms or given_up:
                _listen(connection, block_ms, given_up)
            return [_read(connection) for _ in range(expected)]
        except BaseException:
            connection.disconnect()
            raise
        finally:
            share.idle.append(connection)
            if len(share.idle) > share.kept or share.turn.locked():
                share.give_back(pool, share.kept)

    def _hold(self) -> tuple[Any, SyncShare]:
        """Find the pool of the server that has the queue, and the share of it."""
        pool = self._find_pool()
        held = self._held = pool, share_of(pool, SyncShare)
        return held

    def _find_pool(self) -> Any:
        if not is_cluster(self.client):
            return self.client.connection_pool
        self._read_again()
        self._asked = self.node or self.client.nodes_manager.get_node_from_slot(self.client.keyslot(self._key))
        return self.client.get_redis_connection(self._asked).connection_pool

    def _read_again(self) -> None:
        """Read a cluster again, after an error."""
        if self._stale:
            with contextlib.suppress(*FAILURES):  # the next attempt shows whether the cluster is back
                self.client.nodes_manager.initialize(**asked_last(self._asked))
            self._stale = False

    def _drop(self, error: BaseException) -> None:
        """Close the idle connections: they may be broken too, if their server is gone or no longer the primary.

        A cluster is read again right before the next attempt: before the pause, it may not have a new primary yet.
        """
        if is_healthy(error):
            return
        held, self._held, self._stale = self._held, None, True
        if held is not None:
            pool, share = held
            share.drop(pool)


def _go_on(sending: Generator[None, None, list[list[Any]]], parts: Sequence[_Part]) -> None:
    """Make the next step of a write and its replies, unless the step before failed."""
    if parts[0].got is not None:
        return
    try:
        next(sending)
    except StopIteration as stop:
        for part, replies in zip(parts, stop.value, strict=True):
            part.got = replies
    except (*FAILURES, Interrupted) as error:
        for part in parts:
            part.got = error


def _listen(connection: Any, block_ms: int, given_up: Callable[[], bool] | None) -> None:
    """Wait for the reply to a command that blocks in Redis, regardless of the connection's own timeout."""
    until = time.monotonic() + block_ms / 1000 + _GRACE_S
    while (left := until - time.monotonic()) > 0:
        if _can_read(connection, min(left, resending.LOOK_S) if given_up else left):
            return
        if given_up and given_up():
            raise Interrupted
    raise errors.TimeoutError(f"no reply within {_GRACE_S} s after a wait of {block_ms} ms")


def _can_read(connection: Any, timeout_s: float) -> bool:
    """Poll the connection. Raises ConnectionError where redis-py fails on a connection that another thread closes.

    A timeout for a single read came with redis-py 8; `can_read` is in 5 to 8.
    """
    try:
        return bool(connection.can_read(timeout=timeout_s))
    except (AttributeError, TypeError, ValueError) as error:
        raise errors.ConnectionError("Connection closed by another thread.") from error


def _read(connection: Any) -> Any:
    try:
        return connection.read_response(disable_decoding=True)
    except errors.ResponseError as error:
        return error
