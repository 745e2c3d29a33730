"""A custom gateway: the queue uses only its methods and checks what each returns."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core.errors import CleanupFailedError, GatewayContractError
from rmq_core.redis_message_queue import ClaimedMessage
from tests.core.redis_message_queue.gateways import foreign
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import World

WITH_AND_WITHOUT_LEASES = pytest.mark.parametrize("timeout_s", [300, None], ids=["leases", "no leases"])


@WITH_AND_WITHOUT_LEASES
def test_a_queue_works_over_a_gateway_in_memory(no_world: World, timeout_s: int | None) -> None:
    gateway, shelf = foreign(no_world, timeout_s=timeout_s)
    queue = no_world.queue(gateway=gateway)
    assert [queue.publish("a"), queue.publish("a"), queue.publish({"b": 1})] == [True, False, True]
    with queue.process_message() as first:
        assert shelf.lists == {"q::pending": ['{"b": 1}'], "q::processing": ["a"]}
    with queue.process_message() as second:
        pass
    with queue.process_message() as nothing:
        pass
    assert (first, second, nothing) == ("a", '{"b": 1}', None)
    assert not any(shelf.lists.values())
    assert set(shelf.calls) == {"publish_message", "wait_for_message_and_move", "remove_message"}


def test_the_token_of_the_claim_settles_it(no_world: World) -> None:
    seen: list[dict[str, Any]] = []
    gateway, _ = foreign(no_world, remove_message=lambda *_, **options: seen.append(options) or True)
    queue = no_world.queue(gateway=gateway)
    queue.publish("x")
    with queue.process_message():
        pass
    assert seen == [{"lease_token": "token 1"}]


def test_a_settlement_that_a_gateway_refuses_is_a_stale_lease(no_world: World) -> None:
    recorder = Recorder(no_world)
    gateway, _ = foreign(no_world, remove_message=lambda *_, **__: False)
    queue = no_world.queue(gateway=gateway, on_event=recorder.callback)
    queue.publish("x")
    with pytest.warns(RuntimeWarning, match="lease"), queue.process_message():
        pass
    assert recorder.steps[-2:] == ["ack/skipped", "stale_lease_ack/skipped"]


@pytest.mark.parametrize("wrong", ["x", b"x"])
def test_a_gateway_with_leases_must_return_claims_with_tokens(no_world: World, wrong: object) -> None:
    gateway, shelf = foreign(no_world, wait_for_message_and_move=lambda *_: wrong)
    with pytest.raises(GatewayContractError), no_world.queue(gateway=gateway).process_message():
        pytest.fail("the block began")
    assert "remove_message" not in shelf.calls


@pytest.mark.parametrize("wrong", [1, ["x"], ("x", "token"), True], ids=repr)
@WITH_AND_WITHOUT_LEASES
def test_a_return_value_that_is_no_claim_is_refused(no_world: World, wrong: object, timeout_s: int | None) -> None:
    gateway, _ = foreign(no_world, timeout_s=timeout_s, wait_for_message_and_move=lambda *_: wrong)
    with pytest.raises(GatewayContractError, match="wait_for_message_and_move"):
        handle(no_world.queue(gateway=gateway), lambda: pytest.fail("the block began"))


@pytest.mark.parametrize("wrong", [None, 1, "yes"], ids=repr)
def test_publishing_with_deduplication_must_return_a_bool(no_world: World, wrong: object) -> None:
    gateway, _ = foreign(no_world, publish_message=lambda *_: wrong)
    with pytest.raises(GatewayContractError, match="publish_message"):
        no_world.queue(gateway=gateway).publish("x")


@pytest.mark.parametrize(("verb", "logs"), [("remove_message", False), ("move_message", True)])
def test_settling_must_return_a_bool(no_world: World, verb: str, logs: object) -> None:
    gateway, _ = foreign(no_world, **{verb: lambda *_, **__: None})
    queue = no_world.queue(gateway=gateway, enable_completed_queue=logs)
    queue.publish("x")
    with pytest.raises(CleanupFailedError) as caught, queue.process_message():
        pass
    assert isinstance(caught.value.__cause__, GatewayContractError)
    assert verb in str(caught.value.__cause__)


def test_a_gateway_without_a_visibility_timeout_attribute_counts_as_one_without_leases(no_world: World) -> None:
    gateway, _ = foreign(no_world, wait_for_message_and_move=lambda *_: "x")
    del type(gateway).message_visibility_timeout_seconds
    with no_world.queue(gateway=gateway).process_message() as message:
        assert message == "x"


def test_a_broken_contract_emits_an_event_too(no_world: World) -> None:
    recorder = Recorder(no_world)
    gateway, _ = foreign(no_world, publish_message=lambda *_: None)
    queue = no_world.queue(gateway=gateway, on_event=recorder.callback)
    with pytest.raises(GatewayContractError):
        queue.publish("x")
    assert recorder.steps == ["publish/failure"]


def test_a_failed_trim_warns_and_emits_an_event(no_world: World) -> None:
    def fail(*_: Any) -> None:
        raise OSError("trim")

    recorder = Recorder(no_world)
    gateway, shelf = foreign(no_world, trim_queue=fail)
    queue = no_world.queue(gateway=gateway, enable_completed_queue=True, on_event=recorder.callback)
    queue.publish("x")
    with pytest.warns(RuntimeWarning, match="trim"), queue.process_message():
        pass
    assert shelf.lists["q::completed"] == ["x"]
    event = recorder.only("trim_failed")
    assert (event.outcome, event.destination_queue, event.exception_type) == ("failure", "q::completed", "OSError")
    assert recorder.steps[-3:] == ["trim_failed/failure", "completed/success", "ack/success"]


def test_a_claim_with_a_token_is_also_accepted_from_a_gateway_without_leases(no_world: World) -> None:
    claims = iter([ClaimedMessage("x", "t"), None])
    gateway, shelf = foreign(no_world, timeout_s=None, wait_for_message_and_move=lambda *_: next(claims))
    shelf.lists["q::processing"].append("x")
    with no_world.queue(gateway=gateway).process_message() as message:
        assert message == "x"
    assert shelf.lists["q::processing"] == []


def test_a_gateway_with_its_own_dead_letter_settings_is_restricted_to_one_queue(no_world: World) -> None:
    gateway, _ = foreign(no_world)
    type(gateway).max_delivery_count = 3
    type(gateway).dead_letter_queue = "q::dead_letter"
    no_world.queue("q", gateway=gateway)
    with pytest.raises(ValueError, match="gateway"):
        no_world.queue("other", gateway=gateway)
