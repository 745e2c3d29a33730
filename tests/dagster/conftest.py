from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from rmq_core import LeasedQueue, embedded
from rmq_dagster import RedisQueueResource, resources
from tests.dagster.pipeline import CONFIG

_names = itertools.count(1)
PYPROJECT = """
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "scaffolded_shop"
"""


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis for these tests."""
    directory = tmp_path_factory.mktemp("redis")
    yield f"embedded://{directory}"
    embedded.stop(directory)


@pytest.fixture
def redis_queue(redis_url: str) -> Iterator[RedisQueueResource]:
    resource = RedisQueueResource(url=redis_url)
    yield resource
    resource.close()


@pytest.fixture
def queue(redis_url: str) -> Iterator[LeasedQueue]:
    """An empty queue with a unique name."""
    with LeasedQueue(redis_url, f"q{next(_names)}", CONFIG) as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def _migrations_read_once() -> Iterator[None]:
    """Dagster lets Alembic read its hundred migrations whenever a database is opened: longer than most tests last."""
    read, directories = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        return directories.get(place) or directories.setdefault(place, read(config))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        yield


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unused instance: creating its databases takes longer than most tests."""
    home = tmp_path_factory.mktemp("dagster")
    with dg.instance_for_test(temp_dir=str(home)) as made:
        made.get_runs()
    return home


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance in memory: a run in it takes a fifth of the time of one on disk."""
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path / "dagster_home")) as made:
        yield made


@pytest.fixture
def on_disk(request: pytest.FixtureRequest, empty_home: Path, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that other processes open, too, by DAGSTER_HOME; its parameter are settings of its `dagster.yaml`."""
    home = shutil.copytree(empty_home, tmp_path / "dagster_home")
    with dg.instance_for_test(temp_dir=str(home), overrides=getattr(request, "param", None)) as made:
        yield made


@pytest.fixture
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ticks that cannot reach Redis time out at once, in tests whose subject is not their timeout."""
    monkeypatch.setattr(resources, "TICK_RETRY_BUDGET_S", 0.1)


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The file in which drivers record what they received."""
    return tmp_path / "seen.jsonl"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of definitions in which nothing has been scaffolded yet."""
    package = tmp_path / "scaffolded_shop"
    (package / "defs").mkdir(parents=True)
    for folder in (package, package / "defs"):
        (folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        monkeypatch.delitem(sys.modules, module)  # another test's project has the same name
    return tmp_path
