"""What a mutant is: one change to one file, and the test that fails because of it."""

from __future__ import annotations

from typing import NamedTuple

WRITTEN = "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file"


class Mutant(NamedTuple):
    """A change to one file: `old`, which occurs once, becomes `new`. `killer` is a test that then fails.

    A killer is `file::expression`. The expression is for pytest's `-k` and begins with the name of the test, so the
    covering array chooses server and façade as in `make test`; a test selected by its id would run with all of them. A
    new mutant may lack a killer until `python -m tools.mutants` has found one.
    """

    name: str
    file: str
    old: str
    new: str
    killer: str = ""


def written(scene: str, name: str, file: str, old: str, new: str) -> Mutant:
    """Return a mutant that changes what `scene` of tests/redis/stored writes, so that its golden file differs."""
    return Mutant(name, file, old, new, f"{WRITTEN} and {scene}")
