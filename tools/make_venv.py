"""Create the project's virtual environment with uv inside: `make_venv.py DIRECTORY`.

Standard library only: this runs before anything is installed. Debian ships Python without `ensurepip` unless
python3-venv is installed: this script installs it with apt if it runs as root, and otherwise exits with an error that
names the package.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)


def create(directory: Path) -> None:
    """Make the environment; install python3-venv with apt first if this Python lacks ensurepip."""
    command = [sys.executable, "-m", "venv", "--clear", str(directory)]
    if subprocess.run(command, check=False).returncode == 0:
        return
    if os.geteuid() != 0:
        sys.exit("this Python lacks ensurepip: install the package python3-venv and run make again")
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "python3-venv"], check=True)
    subprocess.run(command, check=True)


def main() -> None:
    """Create the environment named on the command line and put uv into it."""
    if sys.version_info < OLDEST:
        sys.exit(f"RMQ needs Python 3.11 or newer, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11")
    directory = Path(sys.argv[1])
    create(directory)
    # pip checks hashes of requirements only, uv those of constraints too.
    (uv,) = re.findall(r"^uv==(?:.*\\\n)*.*\n", Path("constraints.txt").read_text("utf-8"), re.MULTILINE)
    requirement = directory / "uv.txt"
    requirement.write_text(uv)
    subprocess.run([directory / "bin" / "pip", "install", "--quiet", "--requirement", requirement], check=True)


if __name__ == "__main__":
    main()
