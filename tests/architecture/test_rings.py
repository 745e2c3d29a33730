"""A nightly test names a cheaper one that `make test` runs; a mutant applies and names one, too."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools.mutants import MUTANTS, Mutant, mutated

TESTS = Path(__file__).parents[1]
MARKED = re.compile(r'mark\.nightly\(\s*"([^"]+)"')
NAMED = sorted({name for path in TESTS.rglob("*.py") for name in MARKED.findall(path.read_text("utf-8"))})


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which many mutants name."""
    return ast.parse(path.read_text("utf-8"))


def runs_in_ring_two(path: Path, test: str) -> bool:
    """Whether the test exists, and neither it nor its file is marked nightly."""
    tree = parsed(path)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test
    ]
    marks = [ast.unparse(mark) for node in found for mark in node.decorator_list]
    marks += [ast.unparse(node) for node in tree.body if ast.unparse(node).startswith("pytestmark")]
    return bool(found) and not any(
        mark.startswith(("pytestmark", "pytest.mark.nightly")) and "nightly" in mark for mark in marks
    )


def test_nightly_tests_are_found() -> None:
    assert len(NAMED) > 5


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_names_a_test_that_make_test_runs(mutant: Mutant) -> None:
    changed = mutated(mutant, (TESTS.parent / mutant.file).read_bytes())
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    path, _, expression = mutant.killer.partition("::")
    assert runs_in_ring_two(TESTS.parent / path, expression.split(" and ")[0])


@pytest.mark.parametrize("name", NAMED)
def test_a_nightly_test_names_one_that_make_test_runs(name: str) -> None:
    path, _, test = name.partition("::")
    assert runs_in_ring_two(TESTS / path, test)
