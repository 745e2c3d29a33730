"""Who holds a lease, from the owners that the integrations write, and the address of the page that shows it.

An owner is `airflow:<dag>/<run>/<task>/<map index>/<try>@<run mark>` for a task of Airflow, the run's id, a UUID, for
Dagster, and `spark:<application>[/<number>]` for Spark, or `spark-<number>` for a run of a stream that does not know
its application. Publishers are `airflow <dag>/<run>/<task>/<map index>`, `dagster <job>/<run>/<step>` and `spark
<application>`. `--link airflow=https://…` gives the address of the web server; without it the work is named, but not
linked. For Spark, that is the history server, or an address with `{application}` in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, urlsplit

from rmq_console import Holder
from rmq_core.errors import ConfigurationError

AIRFLOW = re.compile(r"airflow:(?P<dag>[^/]+)/(?P<run>.+)/(?P<task>[^/]+)/(?P<index>-?\d+)/(?P<attempt>\d+)(@.*)?")
AIRFLOW_PUBLISHER = re.compile(r"airflow (?P<dag>[^/]+)/(?P<run>.+)/(?P<task>[^/]+)/(?P<index>-?\d+)")
DAGSTER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DAGSTER_PUBLISHER = re.compile(rf"dagster (?P<job>[^/]+)/(?P<run>{DAGSTER.pattern})(/(?P<step>.+))?")
SPARK = re.compile(r"spark[: ](?P<application>[A-Za-z0-9._-]+)(/.*)?")
SPARK_STREAM = re.compile(r"spark-(?P<run>[0-9a-f]{32})")
LINKED = ("airflow", "dagster", "spark")
_APPLICATION = "{application}"


class Links:
    """Reads `name=address` for each integration. Raises ConfigurationError for any other text."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self._addresses = dict(map(_read, given))

    def holder_of(self, owner: str) -> Holder | None:
        """Return the work that an owner or a publisher names, None for any other text."""
        for name, pattern, read in KINDS:
            if match := pattern.fullmatch(owner):
                holder, path = read(match)
                return {**holder, "href": _address(self._addresses.get(name), path)}
        return None


def _address(base: str | None, path: str) -> str | None:
    if base is None or not path:
        return None
    return base.replace(_APPLICATION, path) if _APPLICATION in base else base + path


def _airflow(match: re.Match[str]) -> tuple[Holder, str]:
    dag, run, task = match["dag"], match["run"], match["task"]
    index, attempt = int(match["index"]), match.groupdict().get("attempt")
    mapped, shown = (f"/mapped/{index}", f"{task} [{index}]") if index >= 0 else ("", task)
    path = f"/dags/{_quoted(dag)}/runs/{_quoted(run)}/tasks/{_quoted(task)}{mapped}"
    if attempt is None:
        return _holder([dag, shown], run), path
    return _holder([dag, shown], run, f"try {int(attempt)}"), f"{path}?try_number={int(attempt)}"


def _dagster(match: re.Match[str]) -> tuple[Holder, str]:
    return _holder(["Dagster", f"run {match[0][:8]}"], match[0]), f"/runs/{match[0]}"


def _dagster_publisher(match: re.Match[str]) -> tuple[Holder, str]:
    job = [] if match["job"].startswith("__") else [match["job"]]  # Dagster's own name for a run of assets
    return _holder(["Dagster", *job, match["step"] or f"run {match['run'][:8]}"], match["run"]), f"/runs/{match['run']}"


def _spark(match: re.Match[str]) -> tuple[Holder, str]:
    return _holder(["Spark", match["application"]]), match["application"]


def _spark_stream(match: re.Match[str]) -> tuple[Holder, str]:
    return _holder(["Spark", f"stream run {match['run'][:8]}"], match["run"]), ""


KINDS: Sequence[tuple[str, re.Pattern[str], Callable[[re.Match[str]], tuple[Holder, str]]]] = (
    ("airflow", AIRFLOW, _airflow),
    ("airflow", AIRFLOW_PUBLISHER, _airflow),
    ("dagster", DAGSTER, _dagster),
    ("dagster", DAGSTER_PUBLISHER, _dagster_publisher),
    ("spark", SPARK, _spark),
    ("spark", SPARK_STREAM, _spark_stream),
)


def _holder(names: list[str], run: str = "", attempt: str = "") -> Holder:
    return {"names": names, "run": run, "attempt": attempt, "href": None}


def _read(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    parts = urlsplit(address)
    if name not in LINKED or not equals or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"--link: write one of {', '.join(LINKED)}, =, and an http address, not {text!r}")
    if name == "spark" and _APPLICATION not in address:
        address = f"{address.rstrip('/')}/history/{_APPLICATION}/jobs/"
    return name, address if _APPLICATION in address else address.rstrip("/")


def _quoted(name: str) -> str:
    return quote(name, safe="")
