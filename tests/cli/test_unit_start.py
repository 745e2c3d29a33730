from __future__ import annotations

import subprocess
import sys

import pytest


def rmq(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run `rmq` in its own process, after some code."""
    script = f"{code}\nfrom rmq_cli import main\nmain({list(arguments)!r})"
    return subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("heavy", ["redis", "asyncio", "rich.progress"])
def test_help_loads_nothing_that_only_commands_need(heavy: str) -> None:
    loaded = f"import atexit, sys; atexit.register(lambda: print({heavy!r} in sys.modules, file=sys.stderr))"
    assert rmq("--help", code=loaded).stderr == "False\n"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_an_error_names_what_to_install(missing: str) -> None:
    ran = rmq("stats", code=f"import sys; sys.modules[{missing!r}] = None")
    assert ran.returncode == 1
    assert ran.stderr == "rmq: the command line needs Typer and Rich; install them with: pip install 'rmq[cli]'\n"


def test_another_missing_module_is_not_taken_for_the_extra() -> None:
    ran = rmq("stats", code="import sys; sys.modules['rmq_cli.doctor'] = None")
    assert "rmq_cli.doctor" in ran.stderr
    assert "pip install" not in ran.stderr
