from __future__ import annotations

import subprocess
import sys

import pytest

from rmq_core import __version__
from rmq_core.cli import main


def rmq(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run `rmq` in its own process, after some code."""
    script = f"{code}\nfrom rmq_core.cli import main\nmain({list(arguments)!r})"
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
    ran = rmq("stats", code="import sys; sys.modules['rmq_core.cli.doctor'] = None")
    assert "rmq_core.cli.doctor" in ran.stderr
    assert "pip install" not in ran.stderr


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["publish"], ["consume"], ["run"], ["stats"], ["peek"], ["leases"], ["dlq"], ["dlq", "list"],
        ["dlq", "redrive"], ["dlq", "purge"], ["reap"], ["doctor"], ["top"], ["queues"], ["queues", "list"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        assert ended.value.code == 0
        assert f"Usage: rmq {' '.join(command)} " in capsys.readouterr().out


def test_the_version_is_printed_without_a_command_or_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--url", "redis://nowhere.invalid/0", "--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rmq {__version__}\n"


def test_a_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["stats", "--speed"])
    assert ended.value.code == 2
    assert "--speed" in capsys.readouterr().err
