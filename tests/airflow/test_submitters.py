"""A sensor hands messages over to a driver that any operator submits, and a teardown concludes what the driver left."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import ConfigurationError, Lease, LeaseAlreadySettled, LeasedQueue, LeaseLost
from rmq_core.orchestrate import Handover
from tests.airflow.conftest import CANARY, QUEUE, MakeContext
from tests.airflow.floor import LEAVES_A_PIPE_OPEN
from tests.airflow.runs import load, states, xcom

SECRETS = {"password": "env:DRIVER_PASSWORD"}
LEASE_ID = "dag/run/wait/-1"

STARTED: list[LeasedQueue] = []

pytestmark = pytest.mark.usefixtures("connection")


@pytest.fixture(autouse=True)
def _drivers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let drivers find the password, and close their queues after the test."""
    monkeypatch.setenv("DRIVER_PASSWORD", CANARY)
    yield
    while STARTED:
        STARTED.pop().close()


def sensor(**options: Any) -> RedisQueueSensor:
    given = {"hand_over": timedelta(hours=1), "secrets": SECRETS, "poke_interval": 0.05, "timeout": 0.2, **options}
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, **given)


def hand_over(context: MakeContext, try_number: int = 1, **options: Any) -> Any:
    """Return what the sensor leaves in XCom, as JSON brings it to other tasks."""
    made = sensor(**options)
    return json.loads(json.dumps(made.execute(context(made, try_number=try_number))))


def conclude(context: MakeContext, handed: Any) -> Any:
    operator = RedisQueueSettleOperator(task_id="settle", hand_over=handed, action="conclude")
    report: Any = operator.execute(context(operator))
    return report["action"], report["settled"], report["left_alone"]


class AdoptingDriver:
    """A driver that was submitted with the parameters of a hand-over, as another machine would run it."""

    def __init__(self, handed: Any) -> None:
        self.handover = Handover.from_parameters(["--table", "t", *handed["parameters"]])
        self.queue = LeasedQueue(self.handover.settings, self.handover.queue, self.handover.config)
        STARTED.append(self.queue)

    def adopt(self) -> Lease:
        return self.queue.adopt(self.handover.lease_id, if_owner=self.handover.owner)


def test_a_driver_adopts_with_the_parameters_and_acks_and_nothing_is_left_to_settle(
    queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("abc")
    handed = hand_over(task_context)
    driver = AdoptingDriver(handed)
    assert driver.queue.ack(driver.adopt()).settled == 3
    _, settled, left_alone = conclude(task_context, handed)
    assert settled == 0
    assert "settled" in left_alone
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_neither_the_output_nor_the_rendered_parameters_show_a_secret(queue: Any, task_context: MakeContext) -> None:
    queue.publish("payload-of-a")
    handed = hand_over(task_context)
    lease = AdoptingDriver(handed).adopt()
    for secret in (CANARY, "payload-of-a", lease.token):
        assert secret not in json.dumps(handed)
    told = json.loads(handed["parameters"][1])
    assert (told["lease_id"], told["credentials"]) == (LEASE_ID, SECRETS)
    assert (told["lease_ms"], told["adopt_ms"]) == (300_000, 3_600_000)


def test_a_submit_that_fails_for_good_releases_what_no_driver_adopted(queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("ab")
    assert conclude(task_context, hand_over(task_context)) == ("release", 2, None)
    assert [message.deliveries for message in queue.admin.peek(5)] == [0, 0]


def test_a_driver_that_fails_for_good_has_its_messages_nacked(queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("ab")
    handed = hand_over(task_context)
    AdoptingDriver(handed).adopt()
    assert conclude(task_context, handed) == ("nack", 2, None)
    assert "did not settle" in queue.admin.peek(1)[0].history[0].reason


def test_the_driver_of_a_retry_finds_the_lease_again_and_fences_the_former_off(
    queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("ab")
    handed = hand_over(task_context)
    former, retry = AdoptingDriver(handed), AdoptingDriver(handed)
    stale = former.adopt()
    held = retry.adopt()
    with pytest.raises(LeaseLost):
        former.queue.ack(stale)
    assert [message.deliveries for message in retry.queue.messages(held)] == [1, 1]
    assert retry.queue.ack(held).settled == 2


def test_a_driver_that_still_runs_after_the_teardown_is_fenced_off(queue: Any, task_context: MakeContext) -> None:
    queue.publish("a")
    handed = hand_over(task_context)
    driver = AdoptingDriver(handed)
    lease = driver.adopt()
    conclude(task_context, handed)
    with pytest.raises(LeaseLost):
        driver.queue.ack(lease)


def test_a_cleared_run_hands_the_same_lease_over_and_the_driver_of_before_cannot_adopt_it(
    queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("ab")
    before = AdoptingDriver(hand_over(task_context))
    again = hand_over(task_context, 2)
    assert again["lease_id"] == LEASE_ID
    with pytest.raises(LeaseLost):
        before.adopt()
    driver = AdoptingDriver(again)
    assert driver.queue.ack(driver.adopt()).settled == 2


def test_a_run_cleared_after_its_driver_acked_claims_another_batch(queue: Any, task_context: MakeContext) -> None:
    queue.publish("a")
    before = AdoptingDriver(hand_over(task_context))
    before.queue.ack(before.adopt())
    queue.publish("b")
    assert hand_over(task_context, 2)["lease_id"] == f"{LEASE_ID}#2"
    with pytest.raises(LeaseAlreadySettled):
        before.adopt()


def test_a_credential_without_a_reference_is_refused_before_anything_is_claimed(
    queue: Any, task_context: MakeContext
) -> None:
    queue.publish("a")
    with pytest.raises(ConfigurationError, match="'password': 'env:"):
        hand_over(task_context, secrets={})
    assert queue.stats()[:2] == (1, 0)


def test_the_templates_name_the_task_in_its_group() -> None:
    from airflow.sdk import TaskGroup

    with DAG("d", schedule=None), TaskGroup("group"):
        assert sensor().driver_parameters == [
            "{{ ti.xcom_pull(task_ids='group.wait')['parameters'][0] }}",
            "{{ ti.xcom_pull(task_ids='group.wait')['parameters'][1] }}",
        ]


@pytest.mark.slow
@pytest.mark.usefixtures("airflow_database")
@pytest.mark.filterwarnings(LEAVES_A_PIPE_OPEN)
@pytest.mark.parametrize("behaviour", ["fail_once", "fail"])
def test_a_plain_operator_submits_the_driver_again_on_the_same_lease(
    behaviour: str, queue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish_many("ab")
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    monkeypatch.setenv("MARKER", str(tmp_path / "marker"))
    finished = load("submitting").test()
    left = 2 if behaviour == "fail" else 0
    assert states(finished) == {"wait": "success", "submit": "failed" if left else "success", "conclude": "success"}
    assert (tmp_path / "marker").read_text().splitlines() == ["2 ['a', 'b']"] * 2
    report = xcom(finished, "conclude")
    assert (report["action"], report["settled"]) == ("nack", left)
    assert [message.deliveries for message in queue.admin.peek(5)] == [1] * left
    assert queue.stats().leases == 0
    gc.collect()  # a pipe that was left open warns now, not in another test
