from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmq_core.protocol import DISCIPLINES

ROOT = Path(__file__).parents[2]


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
    assert set(loaded.split()) & {*DISCIPLINES, "compat"} == {"leased"}


@pytest.mark.parametrize("module", ["rmq_core", "rmq_core.asyncio"])
def test_importing_the_core_creates_neither_loop_nor_thread(module: str) -> None:
    assert run(f"import threading, {module}; print(threading.active_count())") == "1"


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
