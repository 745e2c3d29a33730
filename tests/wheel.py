"""RMQ as people install it: the wheel that is built from this checkout, with pip and with uv, in separate environments.

Commands run in their own folder, so that nothing of the checkout's configuration applies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOTH = ("pyspark", "pyspark-client")
"""Two distributions of one package, `pyspark`: installed together, they overwrite each other's files."""
UV = str(Path(sys.executable).with_name("uv"))
"""Beside the interpreter, which need not be on PATH."""
LISTED = "import importlib.metadata as m, json; print(json.dumps([d.name for d in m.distributions()]))"


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel from the current files of the checkout, or of another folder."""
    run([UV, "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", str(folder), str(source)], folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def requirements(wheel: Path, extras: str, others: Sequence[str] = ()) -> list[str]:
    """Return the arguments of an installer: the wheel with extras, and what a user adds."""
    return [f"rmq[{extras}] @ {wheel.as_uri()}", *others]


def resolve(folder: Path, wanted: Sequence[str]) -> dict[str, str]:
    """Return name and version of everything uv would install."""
    (folder / "wanted.in").write_text("\n".join(wanted))
    options = ["--quiet", "--no-header", "--no-annotate", "--python", sys.executable]
    lines = run([UV, "pip", "compile", *options, "wanted.in"], folder).splitlines()
    return {name: version for name, _, version in (line.partition("==") for line in lines)}


def install_with_pip(folder: Path, wanted: Sequence[str]) -> str:
    """Create an environment that pip fills; return its interpreter."""
    run([sys.executable, "-m", "venv", str(folder)], folder.parent)
    python = str(folder / "bin" / "python")
    run([python, "-m", "pip", "install", "--quiet", *wanted], folder)
    return python


def install_with_uv(folder: Path, wanted: Sequence[str]) -> str:
    """Do the same with uv."""
    run([UV, "venv", "--quiet", "--python", sys.executable, str(folder)], folder.parent)
    python = str(folder / "bin" / "python")
    run([UV, "pip", "install", "--quiet", "--python", python, *wanted], folder)
    return python


def installed(python: str, folder: Path) -> set[str]:
    """Return the distributions that an environment has."""
    return {name.lower().replace("_", "-") for name in json.loads(run([python, "-c", LISTED], folder))}


def run(command: Sequence[str], folder: Path) -> str:
    """What a command prints; AssertionError with all it said when it fails. It knows of no other environment."""
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    said = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert said.returncode == 0, f"{' '.join(command)}\n{said.stdout[-2000:]}\n{said.stderr[-4000:]}"
    return said.stdout
