from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_core.protocol import DISCIPLINES

ROOT = Path(__file__).parents[2]
PACKAGES = {"rmq_core", "rmq_cli", "rmq_console", "rmq_airflow", "rmq_dagster", "rmq_spark", "pyspark_rmq"}


def test_the_import_contracts_of_pyproject_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter, "--no-cache"], cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("module", ["rmq_core", "rmq_core.asyncio"])
def test_importing_the_core_loads_no_client_library(module: str) -> None:
    # redis-py alone takes longer to import than the 150 ms the core may take; it is loaded with the first client.
    assert third_party_loaded_by(module) <= {"rmq_core", "tenacity"}


def test_importing_the_core_loads_no_discipline_but_the_default() -> None:
    loaded = run("import sys, rmq_core; print(*{part for name in sys.modules for part in name.split('.')[1:3]})")
    assert set(loaded.split()) & {*DISCIPLINES, "redis_message_queue"} == {"leased"}


@pytest.mark.parametrize("module", ["rmq_core", "rmq_core.asyncio"])
def test_importing_the_core_creates_neither_loop_nor_thread(module: str) -> None:
    assert run(f"import threading, {module}; print(threading.active_count())") == "1"


def test_code_outside_the_packages_imports_only_names_that_exist() -> None:
    # mypy reads the packages alone, and somebody who renames a module runs some of the tests.
    imported = [entry for path in python_files() for entry in names_imported_by(path)]
    assert len(imported) > 1000
    missing = [f"{place}: {module}.{name}" for place, module, name in imported if not mentions(module, name)]
    assert missing == []


def python_files() -> list[Path]:
    folders = ("benchmarks", "example_dags", "tests", "tools")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def names_imported_by(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield file:line, module and name of each `from rmq_… import name`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield from ((place, node.module or "", alias.name) for alias in node.names)


@functools.cache
def mentions(module: str, name: str) -> bool:
    """Return True if a module has a submodule of this name, or the name in its text. Importing Airflow is slow."""
    base = ROOT / module.replace(".", "/")
    if (base / name).is_dir() or (base / f"{name}.py").exists():
        return True
    if module in {"rmq_core", "rmq_core.asyncio"}:
        return hasattr(importlib.import_module(module), name)
    source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return source.exists() and re.search(rf"\b{name}\b", source.read_text()) is not None


def third_party_loaded_by(module: str) -> set[str]:
    # Site start-up of a virtual environment may load modules itself; only what the import adds counts.
    code = f"""
import sys
before = set(sys.modules)
import {module}
print(*{{name.partition('.')[0] for name in set(sys.modules) - before}} - sys.stdlib_module_names)
"""
    return set(run(code).split())


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
