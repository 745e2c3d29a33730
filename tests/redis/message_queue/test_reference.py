"""The reference names existing tests, a test for every row, and every scenario."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.redis.message_queue.test_names import DOCUMENTED_OPERATIONS

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
REFERENCE = TESTS.parent / "docs" / "reference" / "redis-message-queue.md"
# A test of this folder by its file, one of another by its path below tests/.
TEST = re.compile(r"`((?:[\w/]+/)?test_\w+\.py)::(test_\w+)`")
SCENARIO = re.compile(r"`scenarios/(\w+\.py)`")
LINES = REFERENCE.read_text("utf-8").splitlines()
# The row above a line of dashes is the head of its table.
ROWS = [line for line, below in zip(LINES, [*LINES[1:], ""], strict=True) if line[:2] == "| " and below[:4] != "|---"]
SECTIONS = {
    "Features",
    "Delivery",
    "Shutdown shapes",
    "Changes on a live queue",
    "Changes between releases of redis-message-queue",
    "Limitations",
    "Programs",
}


def functions_of(file: str) -> set[str]:
    folder = TESTS if "/" in file else HERE
    tree = ast.parse((folder / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:50].split(" |")[0])
def test_a_row_names_tests_that_exist(row: str) -> None:
    named, scenarios = TEST.findall(row), SCENARIO.findall(row)
    assert named or scenarios, f"no test holds: {row}"
    assert all(name in functions_of(file) for file, name in named), row
    assert all((HERE / "scenarios" / file).exists() for file in scenarios), row


def test_every_operation_is_documented() -> None:
    told = {name for row in ROWS for name in re.findall(r"`([a-z_]+)`", row)}
    assert set(DOCUMENTED_OPERATIONS) <= told


def test_every_scenario_is_documented() -> None:
    named = set(SCENARIO.findall(REFERENCE.read_text("utf-8")))
    assert named == {path.name for path in (HERE / "scenarios").glob("*.py")}


def test_no_table_is_missing() -> None:
    assert set(re.findall(r"^## (.+)$", REFERENCE.read_text("utf-8"), re.MULTILINE)) >= SECTIONS


def test_every_test_file_covers_something_documented() -> None:
    files = {file for file, _ in TEST.findall(REFERENCE.read_text("utf-8")) if "/" not in file}
    others = {Path(__file__).name, "test_benchmark_worker.py"}
    assert files | others == {path.name for path in HERE.glob("test_*.py")}
