"""A project of somebody that points `RedisQueueServerComponent` at a server, scaffolded and loaded as `dg` does."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.definitions.freshness_evaluator import TimeWindowFreshnessPolicyEvaluator
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time
from dagster.components.component_scaffolding import scaffold_object

from rmq_core import LeasedQueue, QueueUnavailable, RedisSettings, embedded, open_queue
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.orchestrate import ALERTS
from rmq_dagster import RedisQueueResource, discovered, redis_queue_definitions
from rmq_dagster.components import RedisQueueServerComponent
from rmq_dagster.discovered import keys_of, matching

pytestmark = [
    # Dagster deprecates a function that it uses itself to make observable assets external ones.
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),  # by Dagster, when it loads YAML
]
KINDS = {"leased": "a", "jobs": "a", "reliable": "a", "rotation": "id", "streams": {"n": 1}}
VANISHES, NEW = "vanishes", "new one"
Tick = Callable[..., dg.SensorResult]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of these tests' own, with a queue of each discipline, one in groups and one in shards."""
    directory = tmp_path_factory.mktemp("server")
    url = f"embedded://{directory}"
    for discipline, payload in KINDS.items():
        with_name = open_queue(url, f"of {discipline}", discipline)
        with_name.publish(payload)  # type: ignore[arg-type]
        with_name.close()
    for name, setting in (("grouped", {"groups": "fair"}), ("sharded", {"shards": 3})):
        with LeasedQueue(url, name) as queue:
            queue.admin.configure(**setting)
            queue.publish_many(["a", "b"], **({"group": "gold"} if name == "grouped" else {}))
    yield url
    embedded.stop(directory)


@pytest.fixture
def shop(project: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the component as `dg scaffold defs` writes it, and the resource of the tutorial."""
    monkeypatch.setenv("RMQ_URL", address)
    monkeypatch.setattr(DefinitionsLoadContext, "_instance", None)  # that of a run which another test executed
    scaffold_object(
        project / "scaffolded_shop" / "defs" / "queues", "rmq_dagster.components.RedisQueueServerComponent", "{}",
        "yaml", project,
    )  # fmt: skip
    return project


def configured(shop: Path, **attributes: Any) -> None:
    """Set attributes in the scaffolded file."""
    file = shop / "scaffolded_shop" / "defs" / "queues" / "defs.yaml"
    content = yaml.safe_load(file.read_text())
    content["attributes"] |= attributes
    file.write_text(yaml.safe_dump(content))


def refresh(shop: Path) -> None:
    """`dg utils refresh-defs-state`."""
    tree = dg.ComponentTree.for_project(shop)
    (component,) = tree.get_all_components(of_type=RedisQueueServerComponent)
    asyncio.run(component.refresh_state(shop))


def loaded(shop: Path, address: str) -> dg.Definitions:
    folder = dg.load_from_defs_folder(path_within_project=shop)
    resources = {"redis_queue": RedisQueueResource(url=address)}
    defs = dg.Definitions.merge(folder, dg.Definitions(resources=resources))
    dg.Definitions.validate_loadable(defs)
    return defs


def assets(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


@pytest.fixture
def tick(instance: dg.DagsterInstance) -> Tick:
    def evaluate(defs: dg.Definitions, cursor: str | None = None) -> dg.SensorResult:
        sensor, resources = defs.resolve_sensor_def("redis_observer"), dict(defs.resources or {})
        with dg.build_sensor_context(instance, cursor=cursor, resources=resources) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


def seen(result: dg.SensorResult, kind: type = dg.AssetMaterialization) -> dict[str, Any]:
    found = [each for each in result.asset_events if isinstance(each, kind)]
    return {each.asset_key.path[-1]: each.metadata["rmq/depth"].value for each in found}


EVERY = {f"of_{discipline}": 1 for discipline in KINDS} | {"grouped": 2, "sharded": 2}


def test_queues_of_every_discipline_are_observed_checked_and_fresh_until_no_tick_looks(
    shop: Path, address: str, tick: Tick, instance: dg.DagsterInstance
) -> None:
    refresh(shop)
    defs = loaded(shop, address)
    assert assets(defs) == {f"redis/{name}" for name in EVERY}
    result = tick(defs)
    assert result.skip_reason is None
    assert seen(result) == seen(result, dg.AssetObservation) == EVERY
    judged = [each for each in result.asset_events if isinstance(each, dg.AssetCheckEvaluation)]
    assert len(judged) == len(EVERY) * len(ALERTS.stats.given())
    assert all(each.passed for each in judged)
    node = defs.resolve_asset_graph().get(dg.AssetKey(["redis", "of_jobs"]))
    assert (node.group_name, node.metadata["rmq/discipline"]) == ("redis", "jobs")
    for each in result.asset_events:
        instance.report_runless_asset_event(each)
    evaluator, context = TimeWindowFreshnessPolicyEvaluator(), LoadingContextForTest(instance)
    assert asyncio.run(evaluator.evaluate_freshness(context, node)) == FreshnessState.PASS
    for age, state in ((1790, FreshnessState.PASS), (1810, FreshnessState.FAIL)):  # the default of stale_after_seconds
        with freeze_time(datetime.now(UTC) + timedelta(seconds=age)):
            assert asyncio.run(evaluator.evaluate_freshness(context, node)) == state


def test_the_asset_of_a_queue_links_to_its_page_in_the_console(
    shop: Path, address: str, tick: Tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(shop, queues=["of *"])
    refresh(shop)
    assert "rmq/console" not in next(iter(tick(loaded(shop, address)).asset_events)).metadata
    monkeypatch.setenv("RMQ_CONSOLE", "https://rmq.test/")
    defs = loaded(shop, address)
    page = "https://rmq.test/#/redis/of%20jobs"
    node = defs.resolve_asset_graph().get(dg.AssetKey(["redis", "of_jobs"]))
    links = [
        each.metadata["rmq/console"]
        for each in tick(defs).asset_events
        if each.asset_key == node.key and "rmq/console" in each.metadata
    ]
    assert [link.url for link in (node.metadata["rmq/console"], *links)] == [page] * 3, "the asset, and each look at it"


def test_a_run_observes_and_checks_a_queue_of_another_discipline(
    shop: Path, address: str, instance: dg.DagsterInstance
) -> None:
    refresh(shop)
    job = dg.define_asset_job("look", dg.AssetSelection.assets("redis/of_rotation"))
    defs = dg.Definitions.merge(loaded(shop, address), dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("look").execute_in_process(instance=instance)
    assert len(result.get_asset_check_evaluations()) == len(ALERTS.stats.given())
    (event,) = result.get_asset_observation_events()
    assert event.asset_observation_data.asset_observation.metadata["rmq/ready"].value == 1


def test_a_server_that_is_away_keeps_what_was_found_before(
    shop: Path, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert assets(loaded(shop, address)) == set()
    assert "has no queues yet: run `dg utils refresh-defs-state`" in caplog.text
    refresh(shop)
    monkeypatch.setenv("RMQ_URL", "redis://localhost:1")
    with pytest.raises(QueueUnavailable, match="localhost:1"):
        refresh(shop)
    assert len(assets(loaded(shop, address))) == len(EVERY)


def test_dg_dev_refreshes_by_itself_and_starts_without_the_server_too(
    shop: Path, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DAGSTER_IS_DEV_CLI", "1")
    assert len(assets(loaded(shop, address))) == len(EVERY)
    monkeypatch.setenv("RMQ_URL", "redis://localhost:1")
    assert len(assets(loaded(shop, address))) == len(EVERY)
    assert "RedisQueueServerComponent[redis] keeps the queues of its last refresh" in caplog.text


def test_a_tick_says_which_queues_are_gone_or_new_and_a_refresh_follows(shop: Path, address: str, tick: Tick) -> None:
    configured(shop, queues=["*s", "*new*", "!of streams", "*unreadable*"])
    with LeasedQueue(address, VANISHES) as queue:
        queue.publish("a")
        refresh(shop)
        defs = loaded(shop, address)
        assert seen(tick(defs)) == {"of_jobs": 1, VANISHES: 1}
        queue.admin.purge("ready")
        queue.admin.unregister()
    with LeasedQueue(address, NEW) as new:
        new.publish("a")
        changed = tick(defs)
        assert seen(changed) == {"of_jobs": 1}, "its asset gets stale"
        assert "'vanishes' is gone from the server; 'new one' is new. Run `dg utils" in str(changed.skip_reason)
        refresh(shop)
        assert assets(loaded(shop, address)) == {"redis/new_one", "redis/of_jobs"}
        new.admin.purge("ready")
        new.admin.unregister()


def test_a_queue_that_cannot_be_read_hides_no_other(shop: Path, address: str, tick: Tick) -> None:
    name = "unreadable"
    with LeasedQueue(address, name) as queue:
        queue.publish("a")
        refresh(shop)
        defs = loaded(shop, address)
        with RedisSettings.from_url(address).client() as redis:
            queue.admin.purge("ready")
            redis.set(LeasedKeys(name).ready, "a text")
            assert seen(tick(defs)) == EVERY
            redis.delete(LeasedKeys(name).ready)
        queue.admin.unregister()


def test_a_tick_that_takes_too_long_is_continued_by_the_next(
    shop: Path, address: str, tick: Tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(shop)
    defs = loaded(shop, address)
    monkeypatch.setattr(discovered, "LOOKING_S", -1)
    looked: dict[str, Any] = {}
    cursor: str | None = None
    for _ in EVERY:
        result = tick(defs, cursor)
        assert len(seen(result)) == 1
        cursor, looked = result.cursor, {**looked, **seen(result)}
    assert looked == EVERY
    assert seen(tick(defs, cursor)) == {"grouped": 2}, "and begins again"


def test_names_of_other_assets_and_of_other_queues_do_not_collide(shop: Path, address: str, tick: Tick) -> None:
    for name in ("grouped", "of jobs"):
        (shop / "scaffolded_shop" / "defs" / f"{name.replace(' ', '_')}.py").write_text(
            f"import dagster as dg\n@dg.asset(name={name.replace(' ', '_')!r})\ndef made() -> None: ...\n"
        )
    refresh(shop)

    @dg.asset
    def consumer() -> None: ...

    around = redis_queue_definitions("grouped", target=consumer)
    defs = dg.Definitions.merge(loaded(shop, address), around, dg.Definitions(assets=[consumer]))
    dg.Definitions.validate_loadable(defs)
    assert {"grouped", "grouped_queue", "redis/grouped", "of_jobs", "redis/of_jobs"} <= assets(defs)
    assert defs.resolve_implicit_global_asset_job_def()
    keys = keys_of(["a b", "a-b", "a_b", "c d"], "redis")
    assert keys["a_b"].path == ["redis", "a_b"]
    assert keys["c d"].path == ["redis", "c_d"]
    assert len(set(keys.values())) == 4
    assert keys["a b"] == keys_of(["a b", "a-b"], "redis")["a b"], "more queues do not change it"


def test_patterns_choose_queues() -> None:
    found = ["orders", "orders/de", "uploads"]
    assert matching(found, ["*"]) == found
    assert matching(found, ["orders*", "!orders/*"]) == ["orders"]
    assert matching(found, ["!orders*"]) == ["uploads"]


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"stale_after_seconds": 300}, "stale_after_seconds must be more than observe_every_seconds=300, not 300"),
        ({"server": {"url": "redis://localhost", "pasword": "secret"}}, "did you mean password"),
    ],
)
def test_a_wrong_attribute_is_refused_with_the_reason(
    attributes: dict[str, Any], complaint: str, shop: Path, address: str
) -> None:
    refresh(shop)
    configured(shop, **attributes)
    with pytest.raises(Exception, match=r"^Error while") as raised:
        loaded(shop, address)
    shown = "".join(traceback.format_exception(raised.value))
    assert complaint in shown
