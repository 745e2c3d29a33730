"""What `make test` leaves to the night names the test that shows the same at less cost, and that one does run."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tools.mutants import MUTANTS

TESTS = Path(__file__).parents[1]
MARKED = re.compile(r'mark\.nightly\(\s*"([^"]+)"')
NAMED = sorted({name for path in TESTS.rglob("*.py") for name in MARKED.findall(path.read_text("utf-8"))})


def runs_in_ring_two(path: Path, test: str) -> bool:
    """Whether the function is there, and neither it nor its whole file is left to the night."""
    tree = ast.parse(path.read_text("utf-8"))
    found = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test
    ]
    marks = [ast.unparse(mark) for node in found for mark in node.decorator_list]
    marks += [ast.unparse(node) for node in tree.body if ast.unparse(node).startswith("pytestmark")]
    return bool(found) and not any(
        mark.startswith(("pytestmark", "pytest.mark.nightly")) and "nightly" in mark for mark in marks
    )


def test_there_are_tests_of_the_night() -> None:
    assert len(NAMED) > 5


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_breaks_what_is_there(mutant: Any) -> None:
    assert (TESTS.parent / mutant.file).read_text("utf-8").count(mutant.old) == 1


@pytest.mark.parametrize("name", NAMED)
def test_a_test_of_the_night_names_one_of_the_day(name: str) -> None:
    path, _, test = name.partition("::")
    assert runs_in_ring_two(TESTS / path, test)
