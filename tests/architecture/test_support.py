"""The versions that the metadata allows, the page on installing lists, and SUPPORT.md has a rule for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8")
SUPPORT = (ROOT / "SUPPORT.md").read_text("utf-8")
PARTS = {"Airflow": "apache-airflow", "Dagster": "dagster", "Spark": "pyspark"}


@pytest.mark.parametrize("part", PARTS)
def test_the_page_on_installing_lists_the_oldest_version_that_the_metadata_allows(part: str) -> None:
    requirements = [line for extra in EXTRAS.values() for line in extra]
    found = [re.fullmatch(rf"{PARTS[part]}>=([\d.]+)(?:,<(\d+))?", line) for line in requirements]
    ((oldest, too_new),) = {match.groups() for match in found if match}
    below = f", below {too_new}" if too_new else ""
    assert re.search(rf"^\| {part} \| {re.escape(oldest)} or later{below}( \||;)", PAGE, re.MULTILINE)


def test_the_policy_of_support_has_a_rule_for_each_listed_part() -> None:
    listed, ruled = (
        re.findall(r"^\| (\w+(?:, \w+)*) \| ", text.split("## Supported versions")[1].split("\n## ")[0], re.MULTILINE)
        for text in (PAGE, SUPPORT)
    )
    assert sorted(listed) == sorted(ruled)
    assert {"Python", "Redis, Valkey", *PARTS} <= set(ruled)
