"""The metadata, the container files and what texts say about them agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import rmq_core

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_every_version_of_the_constraints_has_the_hashes_of_its_files() -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    entries = re.findall(r"^(\S+==\S+)((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert [version for version, files in entries if "--hash=sha256:" not in files] == [], "run `make constraints`"
    assert len(entries) == text.count("==") > 200
    assert "://" not in text, "any mirror of the index must do"


def test_the_package_and_its_metadata_have_one_version() -> None:
    assert PROJECT["version"] == rmq_core.__version__


@pytest.mark.parametrize("page", ["SUPPORT.md", "docs/how-to/install.md"])
def test_a_table_of_supported_versions_says_what_the_package_requires(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    said = dict(re.findall(r"^\| (Python|Airflow|Dagster|Spark) \| ([^|]+) \|", text, re.MULTILINE))
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert (said["Python"], PROJECT["requires-python"]) == (", ".join(pythons), f">={pythons[0]}")
    extras = PROJECT["optional-dependencies"]
    for part, package in {"Airflow": "apache-airflow", "Dagster": "dagster", "Spark": "pyspark"}.items():
        (required,) = [each for each in extras[part.lower()] if re.match(rf"{package}>", each)]
        oldest, _, below = required.removeprefix(f"{package}>=").partition(",<")
        assert said[part].partition(";")[0] == f"{oldest} or later{f', below {below}' if below else ''}"


def test_prometheus_scrapes_a_service_of_compose() -> None:
    config = yaml.safe_load((ROOT / "monitoring/prometheus/prometheus.yml").read_text("utf-8"))
    ((target,),) = [each["targets"] for job in config["scrape_configs"] for each in job["static_configs"]]
    name, _, port = target.partition(":")
    assert "exec rmq serve" in SERVICES[name]["command"][0]
    assert f"127.0.0.1:{port}:{port}" in SERVICES[name]["ports"]


def test_compose_builds_stages_that_exist_and_mounts_files_that_exist() -> None:
    stages = set(re.findall(r" AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert {service["build"]["target"] for service in SERVICES.values() if "build" in service} <= stages
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {mount for mount in mounts if not mount.startswith("./")} == set(COMPOSE["volumes"])
    assert all((ROOT / mount).is_file() for mount in mounts if mount.startswith("./"))


def test_every_extra_that_a_text_names_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = [path for folder in ("rmq_*", "example_dags") for path in ROOT.glob(f"{folder}/**/*.py")]
    named = {name for path in (*pages, *texts) for name in re.findall(r"\brmq\[([\w,-]+)\]", path.read_text("utf-8"))}
    extras = {extra for names in named for extra in names.split(",")}
    assert {"cli", "spark"} < extras <= {*PROJECT["optional-dependencies"]}


@pytest.mark.parametrize(
    "package", ["rmq_core", "rmq_cli", "rmq_console", "rmq_airflow", "rmq_dagster", "rmq_spark", "pyspark_rmq"]
)
def test_every_package_is_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
