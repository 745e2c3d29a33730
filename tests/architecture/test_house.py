from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["rmq_core", "rmq_airflow", "rmq_dagster", "rmq_spark", "pyspark_rmq"]
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def body_lengths(path: Path) -> list[int]:
    """Return the lines of each function of a file, without docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node.end_lineno - node.lineno + 1 - docstring_lines(node) for node in functions if node.end_lineno]


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return len((ast.get_docstring(node, clean=False) or "").splitlines())


def test_nine_functions_of_ten_have_at_most_32_lines() -> None:
    lengths = sorted(length for path in FILES for length in body_lengths(path))
    assert lengths[int(0.9 * len(lengths))] <= 32


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_has_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400


def test_a_class_name_is_defined_once() -> None:
    """A class name identifies one class. Only asyncio versions and the public batches share names across packages."""
    twins = {"AbstractRedisGateway", "RedisGateway", "RedisMessageQueue", "ClaimedBatch"}
    names = Counter(
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == twins


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
