"""What the metadata, the container files and the page on installing say about each other."""

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
PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
PYTHON = "Programming Language :: Python :: "


def test_the_page_on_installing_lists_every_extra() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| [^|]+ \|$", PAGE.split("```")[0], re.MULTILINE)) == set(
        PROJECT["optional-dependencies"]
    )


def test_metadata_page_and_workflows_name_the_same_pythons() -> None:
    named = [name.removeprefix(PYTHON) for name in PROJECT["classifiers"] if name.startswith(f"{PYTHON}3.")]
    assert f"| Python | {', '.join(named)} |" in PAGE
    assert WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert WORKFLOWS["release"]["jobs"]["use"]["strategy"]["matrix"]["python"] == named


def test_every_version_of_the_constraints_has_the_hashes_of_its_files() -> None:
    text = (ROOT / "constraints.txt").read_text("utf-8")
    entries = re.findall(r"^(\S+==\S+)((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert [version for version, files in entries if "--hash=sha256:" not in files] == [], "run `make constraints`"
    assert len(entries) == text.count("==") > 200
    assert "://" not in text, "any mirror of the index must do"


def test_the_package_and_its_metadata_have_one_version() -> None:
    assert PROJECT["version"] == rmq_core.__version__


@pytest.mark.parametrize("first_lines", ["README.md", "docs/index.md"])
def test_a_reader_learns_from_the_first_lines_that_rmq_is_not_rabbitmq(first_lines: str) -> None:
    head = (ROOT / first_lines).read_text("utf-8")[:800]
    assert "Redis work queue" in head
    assert "not RabbitMQ" in head
    assert "Redis work queue (not RabbitMQ)" in PROJECT["description"]


def test_the_images_run_without_root_on_one_pinned_python() -> None:
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
    images = {image for image, _ in stages} - {name for _, name in stages}
    assert images == {"python:${PYTHON}"}
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert [name for image, name in stages if image == "runtime"] == ["airflow", "dagster", "rmq"], "rmq is the default"
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["10001"]


def test_every_service_that_stays_up_has_a_health_check_and_is_reached_from_this_machine_only() -> None:
    staying = {name: service for name, service in SERVICES.items() if "profiles" not in service}
    assert set(staying) == {"redis", "serve", "airflow", "dagster"}
    for service in staying.values():
        assert service["healthcheck"]["test"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_no_service_has_or_gets_privileges() -> None:
    for name, service in SERVICES.items():
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name


def test_prometheus_scrapes_a_service_of_compose() -> None:
    config = yaml.safe_load((ROOT / "monitoring/prometheus/prometheus.yml").read_text("utf-8"))
    ((target,),) = [each["targets"] for job in config["scrape_configs"] for each in job["static_configs"]]
    name, _, port = target.partition(":")
    assert "exec rmq serve" in SERVICES[name]["command"][0]
    assert f"127.0.0.1:{port}:{port}" in SERVICES[name]["ports"]


def test_every_action_is_named_by_its_commit_and_version() -> None:
    texts = "".join(path.read_text("utf-8") for path in (ROOT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"\buses: (.*)", texts)
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each)] == []


def test_compose_builds_stages_that_exist_and_mounts_files_that_exist() -> None:
    stages = set(re.findall(r" AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert {service["build"]["target"] for service in SERVICES.values() if "build" in service} <= stages
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {mount for mount in mounts if not mount.startswith("./")} == set(COMPOSE["volumes"])
    assert all((ROOT / mount).is_file() for mount in mounts if mount.startswith("./"))
