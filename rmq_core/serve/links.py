"""Who holds a lease, from the owners that the integrations write, and the address of the page that shows it.

An owner is `airflow:<dag>/<run>/<task>/<map index>/<try>@<run mark>` for a task of Airflow, the run's id, a UUID, for
Dagster, and `spark-<number>` for a run of a stream of Spark, which does not name its application. `--link
airflow=https://…` gives the address of the web server; without it the holder is named, but not linked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, urlsplit

from rmq_core.console import Holder
from rmq_core.errors import ConfigurationError

AIRFLOW = re.compile(r"airflow:(?P<dag>[^/]+)/(?P<run>.+)/(?P<task>[^/]+)/(?P<index>-?\d+)/(?P<attempt>\d+)(@.*)?")
DAGSTER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SPARK = re.compile(r"spark-(?P<run>[0-9a-f]{32})")
LINKED = ("airflow", "dagster")


class Links:
    """Reads `name=address` for each integration. Raises ConfigurationError for any other text."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self._addresses = dict(map(_read, given))

    def holder_of(self, owner: str) -> Holder | None:
        """Return the work that an owner names, None for an owner of another kind."""
        for name, (pattern, read) in KINDS.items():
            if match := pattern.fullmatch(owner):
                holder, path = read(match)
                address = self._addresses.get(name)
                return {**holder, "href": None if address is None else address + path}
        return None


def _airflow(match: re.Match[str]) -> tuple[Holder, str]:
    dag, run, task = match["dag"], match["run"], match["task"]
    index = int(match["index"])
    mapped, shown = (f"/mapped/{index}", f"{task} [{index}]") if index >= 0 else ("", task)
    path = f"/dags/{_quoted(dag)}/runs/{_quoted(run)}/tasks/{_quoted(task)}{mapped}?try_number={int(match['attempt'])}"
    return _holder([dag, shown], run, f"try {int(match['attempt'])}"), path


def _dagster(match: re.Match[str]) -> tuple[Holder, str]:
    return _holder(["Dagster", f"run {match[0][:8]}"], match[0]), f"/runs/{match[0]}"


def _spark(match: re.Match[str]) -> tuple[Holder, str]:
    return _holder(["Spark", f"stream run {match['run'][:8]}"], match["run"]), ""


KINDS: Mapping[str, tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[Holder, str]]]] = {
    "airflow": (AIRFLOW, _airflow),
    "dagster": (DAGSTER, _dagster),
    "spark": (SPARK, _spark),
}


def _holder(names: list[str], run: str = "", attempt: str = "") -> Holder:
    return {"names": names, "run": run, "attempt": attempt, "href": None}


def _read(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    parts = urlsplit(address)
    if name not in LINKED or not equals or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"--link: write one of {', '.join(LINKED)}, =, and an http address, not {text!r}")
    return name, address.rstrip("/")


def _quoted(name: str) -> str:
    return quote(name, safe="")
