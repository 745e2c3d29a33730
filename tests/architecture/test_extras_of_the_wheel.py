"""What the extras of the built wheel come to: never two distributions that overwrite each other's files.

Only resolved, by uv: pip has to download and build pyspark for that. `faults/test_installed_wheel.py` installs with
both.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.version import Version

from tests.wheel import BOTH, ROOT, build_wheel, requirements, resolve

PARTS = ("apache-airflow", "dagster", "pyspark", "redis")
PROVIDER = "apache-airflow-providers-apache-spark"
# Extras, additional requirements of a user, which of the two is installed, and the major version of the Spark provider.
INSTALLS = {
    "airflow-spark": ("airflow-spark", [], "pyspark", "5"),
    "all": ("all", [], "pyspark", "5"),
    "a provider of one's own": ("airflow", [f"{PROVIDER}>=6.1"], "pyspark-client", "6"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


AT_NIGHT = pytest.mark.nightly(
    "architecture/test_extras_of_the_wheel.py::test_everything_in_one_environment_is_no_older_than_what_the_tests_run_with"
)


@pytest.mark.parametrize(
    "install", [pytest.param(name, marks=AT_NIGHT if INSTALLS[name][0] != "airflow" else ()) for name in INSTALLS]
)
def test_the_extras_resolve_to_one_pyspark(install: str, wheel: Path, tmp_path: Path) -> None:
    extras, others, expected, major = INSTALLS[install]
    found = resolve(tmp_path, requirements(wheel, extras, others))
    assert [name for name in BOTH if name in found] == [expected]
    assert found[PROVIDER].split(".")[0] == major


def test_everything_in_one_environment_is_no_older_than_what_the_tests_run_with(wheel: Path, tmp_path: Path) -> None:
    found = resolve(tmp_path, requirements(wheel, "all,dev"))
    assert [name for name in BOTH if name in found] == ["pyspark"]
    assert found[PROVIDER].split(".")[0] == INSTALLS["all"][3]
    tested = dict(re.findall(r"^(\S+)==(\S+)", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE))
    older = {name: found[name] for name in PARTS if Version(found[name]) < Version(tested[name])}
    assert older == {}
