"""Pages name tests that prove their statements: each of those tests exists."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from rmq_airflow import extras
from rmq_airflow.get_provider_info import get_provider_info
from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.connection import url
from tests.faults.airflow.kept import MARKS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED = re.compile(r"`((?:\w+/)*\w+\.py)::(test_\w+)`")
SIGNATURE = re.compile(r"^\| `(\w+)\((.*?)\)` \|", re.MULTILINE)
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@cache
def defined() -> dict[str, set[str]]:
    """Return the tests of each file, by its path below tests/."""
    folder = ROOT / "tests"
    return {
        path.relative_to(folder).as_posix(): set(DEFINED.findall(path.read_text("utf-8")))
        for path in sorted(folder.rglob("test_*.py"))
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_a_page_names_exists(page: Path) -> None:
    tests = defined()
    named = NAMED.findall(page.read_text("utf-8"))
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not any(name in found for path, found in tests.items() if f"/{path}".endswith(f"/{file}"))
    ]
    assert missing == []


@pytest.mark.parametrize("discipline", ["jobs", "leased", "reliable", "rotation", "streams"])
def test_the_page_of_a_discipline_names_tests(discipline: str) -> None:
    assert len(NAMED.findall((ROOT / "docs" / "reference" / f"{discipline}.md").read_text("utf-8"))) > 20


def test_the_page_of_leased_queues_has_the_parameters_of_each_method() -> None:
    page = (ROOT / "docs" / "reference" / "leased.md").read_text("utf-8")
    rows = {name: re.findall(r"\w+", names) for name, names in SIGNATURE.findall(page)}
    assert rows.keys() > {"publish", "publish_many", "stage", "claim", "ack"}
    found = {name: [*inspect.signature(getattr(LeasedQueue, name)).parameters][1:] for name in rows}
    assert rows == found


def test_the_page_of_connections_names_every_scheme_option_extra_and_setting_once() -> None:
    page = (ROOT / "docs" / "reference" / "connections.md").read_text("utf-8")
    tables = re.findall(r"^\| (scheme|option|extra) \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    names = [
        sorted(re.findall(r"`([^`]+)`", "".join(row.split("|")[1] for row in rows.splitlines()))) for _, rows in tables
    ]
    (settings,) = (section["options"] for section in get_provider_info()["config"].values())
    assert names == [sorted(known) for known in (url.FORMS, url._OPTIONS, extras.READERS, settings)]


def test_the_page_of_connections_has_the_defaults_of_a_lease() -> None:
    page, config = (ROOT / "docs" / "reference" / "connections.md").read_text("utf-8"), LeasedConfig()
    assert f"| `lease` | {config.lease:g} |" in page
    assert f"| `max_deliveries` | {config.max_deliveries} |" in page


def test_each_row_of_the_queue_comparison_for_dagster_is_covered_by_a_test() -> None:
    table, tests = (ROOT / "docs" / "explanation" / "dagster-comparison.md").read_text("utf-8").split("## The tests")
    rows = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    held = re.split(r"^(\d+)\. ", tests, flags=re.MULTILINE)[1:]
    assert rows == [str(number) for number in range(1, 21)]
    assert held[::2] == rows
    assert all(NAMED.findall(named) for named in held[1::2])


@pytest.mark.parametrize(
    ("section", "marks"),
    [
        ("## RedisQueueConsumeOperator", [mark for mark in MARKS if mark.startswith("task ")]),
        ("## What counts as a failure", MARKS),
    ],
)
def test_the_guide_to_consuming_lists_every_user_action_on_a_task_in_airflow(
    section: str, marks: Iterable[str]
) -> None:
    page = (ROOT / "docs" / "how-to" / "airflow-consume.md").read_text("utf-8")
    table = page.partition(section)[2].partition("\n## ")[0]
    rows = [set(re.findall(r"\w+", line.split("|")[1])) for line in table.splitlines() if line.startswith("| ")]
    assert [mark for mark in marks if not any(set(mark.split()) <= row for row in rows)] == []
