from __future__ import annotations

import dagster as dg
import pytest

from example_dags.first_definitions import defs, invoices
from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource


def test_a_run_of_the_first_definitions_acks_the_orders_that_it_has_claimed(redis_url: str) -> None:
    with LeasedQueue(redis_url, "orders") as orders:
        orders.publish_many([{"order": 1}, {"order": 2}])
        result = dg.materialize([invoices], resources={"redis_queue": RedisQueueResource(url=redis_url)})
        (event,) = result.asset_materializations_for_node("invoices")
        assert event.metadata["rmq/claimed"].value == 2
        assert orders.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")
def test_the_first_definitions_have_a_sensor_that_is_on_when_dagster_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQ_URL", "redis://localhost:6379/0")
    assert defs.resolve_sensor_def("orders_doorbell").default_status == dg.DefaultSensorStatus.RUNNING
