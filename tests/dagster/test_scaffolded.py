"""What `dg scaffold defs` writes runs as it is, on Redis and Spark: a publisher and a Spark job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.component_scaffolding import scaffold_object

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]
COMPONENTS = {"orders": "RedisQueuePublishComponent", "invoices": "RedisQueueSparkComponent"}
PYPROJECT = """
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "scaffolded_shop"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of definitions in which nothing was scaffolded yet."""
    package = tmp_path / "scaffolded_shop"
    (package / "defs").mkdir(parents=True)
    for folder in (package, package / "defs"):
        (folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def scaffold(project: Path, queue: str, asset: str) -> None:
    """`dg scaffold defs rmq_dagster.components.… asset --queue queue --asset asset`."""
    folder = project / "scaffolded_shop" / "defs" / asset
    params = json.dumps({"queue": queue, "asset": asset})
    scaffold_object(folder, f"rmq_dagster.components.{COMPONENTS[asset]}", params, "yaml", project)


def materialize(project: Path, resource: RedisQueueResource, asset: str, **options: Any) -> None:
    defs = dg.Definitions.merge(
        dg.load_from_defs_folder(path_within_project=project), dg.Definitions(resources={"redis_queue": resource})
    )
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(asset_selection=[dg.AssetKey(asset)], **options).success


def test_the_scaffolded_messages_are_published_and_the_scaffolded_job_shows_and_acks_them(
    project: Path,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for asset in COMPONENTS:
        scaffold(project, queue.name, asset)
    materialize(project, redis_queue, "orders", instance=instance)
    assert [message.payload for message in queue.peek(9)] == [{"name": "first"}, {"name": "second"}]
    materialize(project, redis_queue, "invoices", instance=instance)
    assert '{"name":"second"}' in capfd.readouterr().out
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
