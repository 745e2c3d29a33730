"""A nightly test names a cheaper one that `make test` runs; a mutant matches its code and names a test that fails."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools.mutants import MUTANTS

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


@cache
def neighbours_of(path: str) -> str:
    """Return the code of the folder of a test file: it defines the promises and scenes that ids of tests consist of."""
    return "".join(each.read_text("utf-8") for each in sorted((TESTS.parent / path).parent.rglob("*.py")))


def test_nightly_tests_are_found() -> None:
    assert len(NAMED) > 5


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_code_that_a_mutant_replaces_occurs_once_in_its_file(mutant: Any) -> None:
    assert (TESTS.parent / mutant.file).read_text("utf-8").count(mutant.old) == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_names_a_test_that_make_test_runs(mutant: Any) -> None:
    path, _, expression = mutant.killer.partition("::")
    test, *parameters = expression.split(" and ")
    assert runs_in_ring_two(TESTS.parent / path, test)
    assert all(re.search(name.replace("-", "[-_ ]"), neighbours_of(path)) for name in parameters)


@pytest.mark.parametrize("name", NAMED)
def test_a_nightly_test_names_one_that_make_test_runs(name: str) -> None:
    path, _, test = name.partition("::")
    assert runs_in_ring_two(TESTS / path, test)
