"""`run` on real transactions: effects and acknowledgements in SQLite and PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rmq_core.streams import DbApi, EffectsOnce, QueueMessage
from tests.core.streams.databases import Ledger, ledger, place_of
from tests.core.streams.stage import Stage
from tests.servers.postgres import Postgres, running_postgres

MESSAGE = QueueMessage("orders", "billing", "1-0", {})


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def effects(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> Ledger:
    made = ledger(request.param, place_of(request.param, tmp_path, postgres.dsn))
    made.create()
    return made


class CrashingAfterCommit:
    """A connection whose process dies right after its first commit."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.crashed = connection, False

    def cursor(self) -> Any:
        return self.connection.cursor()

    def rollback(self) -> None:
        self.connection.rollback()

    def commit(self) -> None:
        self.connection.commit()
        if not self.crashed:
            self.crashed = True
            raise SystemExit("gone between commit and ack")


def writing(stage: Stage, effects: Ledger, consumer: Any, last: int, error: BaseException | None = None) -> Any:
    """Return a handler that writes an effect; at the message `last` it stops the consumer, or raises."""

    def handle(message: Any, tx: Any) -> None:
        number = message.payload["n"]
        effects.write(tx, number)
        if number == last:
            consumer.stop()
            if error:
                raise error

    return handle


def fill(stage: Stage, count: int) -> None:
    queue = stage.queue()
    for number in range(count):
        queue.enqueue({"n": number})


def test_effects_are_committed_and_their_messages_acknowledged(stage: Stage, effects: Ledger) -> None:
    fill(stage, 5)
    consumer = stage.consumer()
    with closing(effects.connect()) as connection:
        handler = stage.handler(writing(stage, effects, consumer, 4))
        consumer.run(handler=handler, db_factory=stage.database(DbApi(connection).begin))
    assert effects.effects() == [0, 1, 2, 3, 4]
    assert stage.pending() == []


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_the_effects_of_a_handler_that_raised_are_rolled_back(
    stage: Stage, effects: Ledger, error: BaseException
) -> None:
    fill(stage, 2)
    consumer = stage.consumer()
    with closing(effects.connect()) as connection:
        handler = stage.handler(writing(stage, effects, consumer, 1, error))
        with pytest.raises(type(error)):
            consumer.run(handler=handler, db_factory=stage.database(DbApi(connection).begin))
        assert effects.effects() == [0]
    assert len(stage.pending()) == 1


def crash_and_recover(stage: Stage, effects: Ledger, once: Any) -> None:
    """The first consumer dies between commit and ack; the second takes its message over."""
    fill(stage, 1)
    first, second = stage.consumer(), stage.consumer()
    handler = stage.handler(once(lambda message, tx: effects.write(tx, message.payload["n"])))
    with closing(effects.connect()) as connection:
        crashing = CrashingAfterCommit(connection)
        with pytest.raises(SystemExit):
            first.run(handler=handler, db_factory=stage.database(lambda: crashing))
        assert len(stage.pending()) == 1
        time.sleep(0.03)
        factory = stage.database(DbApi(connection).begin)
        assert second.run_claim_stale(handler=handler, db_factory=factory, min_idle_ms=20) == 1
    assert stage.pending() == []


def test_a_crash_between_commit_and_ack_repeats_the_effects(stage: Stage, effects: Ledger) -> None:
    """At least once, said honestly: the application must make its effects idempotent."""
    crash_and_recover(stage, effects, lambda handler: handler)
    assert effects.effects() == [0, 0]


def test_effects_happen_once_when_a_row_for_the_message_is_part_of_their_transaction(
    stage: Stage, effects: Ledger
) -> None:
    once = EffectsOnce(effects.paramstyle)
    with closing(effects.connect()) as connection:
        once.create_table(connection)
        once.create_table(connection)
    crash_and_recover(stage, effects, once)
    assert effects.effects() == [0]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_of_two_concurrent_consumers_of_a_message_the_second_waits_for_the_first(
    postgres: Postgres, ending: str
) -> None:
    shared = ledger("postgres", postgres.dsn)
    once = EffectsOnce(shared.paramstyle, table=f"waiting_{ending}")
    with closing(shared.connect()) as first, closing(shared.connect()) as second:
        once.create_table(first)
        assert once.first(MESSAGE, first)
        verdicts: list[bool] = []
        waiter = threading.Thread(target=lambda: verdicts.append(once.first(MESSAGE, second)))
        waiter.start()
        time.sleep(0.2)
        assert verdicts == []
        getattr(first, ending)()
        waiter.join(300)
        assert verdicts == [ending == "rollback"]
        second.rollback()
