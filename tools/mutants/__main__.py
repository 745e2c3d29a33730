"""Run mutants: each in a git worktree under `build`, first with the test that it names, then with all others.

The named test must pass without the mutant. The committed code must pass.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tools.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
TREE = ROOT / "build" / "mutants"
OPTIONS = ["-q", "--maxfail=1", "--tb=no", "--hypothesis-profile=ci"]
SEARCH = (
    ["-n", "2", "tests/unit"],
    ["-n", "2", "tests/redis"],
    ["-n", "2", "tests/faults", "--ignore=tests/faults/airflow", "--ignore=tests/faults/dagster"],
)
HANGS_S = 900
SELECTS_NOTHING = 5  # pytest's exit code


def main() -> None:
    """Print each mutant with the test that kills it; exit with 1 if one survives."""
    chosen = [int(number) for number in sys.argv[1:]] or range(len(MUTANTS))
    subprocess.run(["git", "worktree", "add", "--force", "--detach", str(TREE)], cwd=ROOT, check=True)
    survivors = 0
    try:
        for number in chosen:
            killers = killers_of(MUTANTS[number])
            survivors += not killers
            print(number, MUTANTS[number].name, *(killers or ["SURVIVES"]), sep="\t", flush=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(TREE)], cwd=ROOT, check=True)
    sys.exit(bool(survivors))


def killers_of(mutant: Mutant) -> list[str]:
    """Return the tests that fail, or the arguments with which pytest hangs or does not start; none if it survives."""
    path = TREE / mutant.file
    source = path.read_text("utf-8")
    if source.count(mutant.old) != 1:
        sys.exit(f"{mutant.name}: {mutant.file} does not contain `old` exactly once; adapt the mutant")
    test, _, expression = mutant.killer.partition("::")
    named = [[test, "-k", expression]] if mutant.killer else []
    if any(map(failures, named)):
        sys.exit(f"{mutant.name}: its killer fails without it, too")
    committed = path.stat()
    path.write_text(source.replace(mutant.old, mutant.new), "utf-8")
    # Python recognises outdated bytecode by the size and the second of its source; two mutants may share both.
    os.utime(path, (MUTANTS.index(mutant), MUTANTS.index(mutant)))
    try:
        return next(filter(None, map(failures, [*named, *SEARCH])), [])
    finally:
        path.write_text(source, "utf-8")
        os.utime(path, ns=(committed.st_atime_ns, committed.st_mtime_ns))


def failures(selection: list[str]) -> list[str]:
    """Run pytest with `selection` in the worktree and return the tests that failed."""
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    shown = " ".join(selection)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *selection],
            cwd=TREE, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"{shown} hangs"]
    if result.returncode == SELECTS_NOTHING:
        sys.exit(f"no test is selected by {shown}; adapt the killer")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return failed or [f"{shown} does not start"] * bool(result.returncode)


if __name__ == "__main__":
    main()
