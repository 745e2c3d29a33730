from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import dagster as dg
import pytest
from pydantic import ValidationError

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, NewMessage
from rmq_core.reliable import ReliableConfig
from rmq_dagster import RedisQueueResource
from tests.dagster.pipeline import CONFIG
from tests.payload_kinds import PUBLISHED, READ


def test_passwords_are_secrets_to_dagster() -> None:
    extras = {name: field.json_schema_extra for name, field in RedisQueueResource.model_fields.items()}
    secret = {name for name, extra in extras.items() if isinstance(extra, dict) and extra.get("dagster__is_secret")}
    assert secret == {"password", "sentinel_password"}


def test_a_resource_without_a_url_raises_an_error_that_names_the_url() -> None:
    with pytest.raises(ValidationError, match="url"):
        RedisQueueResource()


@pytest.mark.parametrize(("name", "hint"), [("max_delivery", "did you mean max_deliveries"), ("host", "its fields")])
def test_a_name_that_is_no_field_is_refused_without_showing_the_other_values(name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} is no field of RedisQueueResource; {hint}") as refused:
        RedisQueueResource(url="redis://h", password="canary", **{name: 3})
    assert "canary" not in str(refused.value)


def test_publishing_counts_duplicates_separately(redis_queue: RedisQueueResource, queue: LeasedQueue) -> None:
    report = redis_queue.publish(queue.name, ["a", "b", "a"], dedup_key=str)
    assert (report.accepted, report.duplicates) == (2, 1)
    assert redis_queue.stats(queue.name).ready == 2


@pytest.mark.parametrize("payload", ["text", b"bytes", {"a": 1}])
def test_a_single_payload_is_refused_in_place_of_a_list(redis_queue: RedisQueueResource, payload: object) -> None:
    with pytest.raises(ConfigurationError, match=r"\[payload\]"):
        redis_queue.publish("work", payload)  # type: ignore[arg-type]


def test_the_resource_publishes_every_kind_of_payload(redis_queue: RedisQueueResource, queue: LeasedQueue) -> None:
    assert redis_queue.publish(queue.name, PUBLISHED).accepted == len(PUBLISHED)
    with queue.process(max_messages=100) as batch:
        assert batch.payloads == READ


def test_the_configuration_of_another_discipline_is_refused(redis_queue: RedisQueueResource) -> None:
    other: LeasedConfig = ReliableConfig()  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match=r"ReliableConfig.*open_queue"):
        redis_queue.queue("work", other)


def test_queues_without_their_own_configuration_use_that_of_the_resource(redis_url: str) -> None:
    resource = RedisQueueResource(url=redis_url, lease_seconds=7, max_deliveries=3)
    assert resource.queue("one").config == LeasedConfig(lease=7, max_deliveries=3)
    assert resource.queue("one", CONFIG).config is CONFIG
    assert resource.queue("one") is resource.queue("one")
    resource.close()


def test_an_op_publishes_to_the_server_of_the_environment_variable(
    redis_url: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_RMQ_URL", redis_url)

    @dg.op(required_resource_keys={"redis_queue"})
    def publish(context) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
        context.resources.redis_queue.publish(queue.name, [{"n": 1}])

    @dg.job(resource_defs={"redis_queue": RedisQueueResource(url=dg.EnvVar("TEST_RMQ_URL"))})
    def work() -> None:
        publish()

    assert work.execute_in_process().success
    assert queue.stats().ready == 1


def test_messages_name_the_run_and_the_step_that_publish_them(
    redis_queue: RedisQueueResource, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def flights(redis_queue: RedisQueueResource) -> None:
        redis_queue.publish(queue.name, ["a"], headers={"tenant": "acme"})
        opened = redis_queue.queue(queue.name)
        opened.publish("b")
        opened.publish_many(NewMessage(text, headers={"dagster-run-id": "another"}) for text in "c")
        with ThreadPoolExecutor() as threads:
            threads.submit(opened.publish, "d").result()

    run = dg.materialize([flights], resources={"redis_queue": redis_queue}, instance=instance)
    found = queue.admin.browse("ready").messages
    publishers = [
        step.who for message in found for step in queue.admin.why(message.id).steps if step.what == "published"
    ]
    of_run = f"dagster {run.dagster_run.job_name}/{run.run_id}"
    assert publishers == [f"{of_run}/flights"] * 3 + [of_run]
    assert found[0].headers["tenant"] == "acme"
