"""The guides' steps for a project with `dg` work: the tests write the files and run the commands of each guide."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import components
from tests.dagster.pipeline import ROOT

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
PYPROJECT = """
[project]
name = "shop"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
"""
DEFINITIONS = """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
# A block of commands, or the content of a file that the line before the block names.
STEP = re.compile(
    r"^```sh\n(?P<commands>.*?)^```$"
    r"|^<!-- (?:not run: the tests write it to|file:) (?P<file>\S+) -->\n```\w+\n(?P<content>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ENDLESS = {"dg dev"}
Walk = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create the project that `create-dagster project shop` makes, but only the files that dg reads."""
    package = tmp_path / "shop" / "src" / "shop"
    (package / "defs").mkdir(parents=True)
    (tmp_path / "shop" / "pyproject.toml").write_text(PYPROJECT)
    (package / "definitions.py").write_text(DEFINITIONS)
    for module in (package, package / "defs"):
        (module / "__init__.py").touch()
    return tmp_path / "shop"


@pytest.fixture
def walk(project: Path, redis_url: str, on_disk: dg.DagsterInstance, tmp_path: Path) -> Walk:
    """Run commands in the project; return everything they printed."""

    def run(commands: list[str]) -> str:
        if not commands:
            return ""
        env = {
            **os.environ,
            "DAGSTER_HOME": on_disk.root_directory,
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "DG_CLI_CONFIG": str(tmp_path / "dg.toml"),
            "COLUMNS": "200",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(project / "src")]),
            "RMQ_URL": redis_url,
        }
        program = [sys.executable, str(Path(__file__).with_name("walk.py")), str(project)]
        done = subprocess.run(
            program, input="\n".join(commands), env=env, check=False, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def orders(redis_url: str) -> Iterator[LeasedQueue]:
    """The queue of the guides, emptied afterwards."""
    with LeasedQueue(redis_url, "orders") as queue:
        yield queue
        queue.admin.purge("ready")


def walked(guide: str, project: Path, walk: Walk) -> str:
    """Write the files of a guide and run its commands in page order; return everything they printed."""
    said, commands = "", list[str]()
    for step in STEP.finditer((DOCS / guide).read_text("utf-8")):
        if step["file"]:
            said, commands = said + walk(commands), []
            write(project, step)
        else:
            lines = step["commands"].splitlines()
            commands += [line for line in lines if line.startswith(("dg ", "rmq ")) and line not in ENDLESS]
    return said + walk(commands)


def write(project: Path, step: re.Match[str]) -> None:
    file = project / step["file"]
    file.parent.mkdir(exist_ok=True)
    file.write_text(step["content"])


def test_dg_finds_the_components_by_the_entry_point_of_the_package() -> None:
    (found,) = entry_points(group="dagster_dg_cli.registry_modules", name="rmq")
    assert found.value == "rmq_dagster.components"


@pytest.mark.nightly("dagster/test_walks.py::test_the_steps_of_the_guide_to_components_work_as_written")
def test_the_steps_for_an_existing_project_work_as_written(project: Path, walk: Walk, orders: LeasedQueue) -> None:
    said = walked("tutorials/dagster.md", project, walk)
    assert "All definitions loaded successfully" in said
    assert all(name in said for name in ("orders_queue:orders_dead_letters", "orders_doorbell", "orders_on_failure"))
    assert orders.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_steps_of_the_guide_to_components_work_as_written(project: Path, walk: Walk, orders: LeasedQueue) -> None:
    before = orders.admin.totals().acked
    guide = (DOCS / "tutorials" / "dagster.md").read_text("utf-8")
    write(project, next(step for step in STEP.finditer(guide) if step["file"]))  # the project's resource
    said = walked("how-to/dagster-components.md", project, walk)
    assert all(f"rmq_dagster.components.{name}" in said for name in components.__all__)
    assert said.count("All component YAML validated successfully") == 6  # `dg check defs` checks it too
    assert said.count("All definitions loaded successfully") == 4
    assert orders.stats()[:5] == (0, 0, 0, 0, 0)
    assert orders.admin.totals().acked - before == 2
