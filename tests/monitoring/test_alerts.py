"""Each alert fires in its situation and is silent in others, has the limits of `ALERTS`, and a runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown.extensions.toc import slugify

from rmq_core.orchestrate import ALERTS as LIMITS
from tests.monitoring.conftest import RULES, RULES_FILE
from tests.monitoring.scenes import ALERTS, SCENES, Scene, group
from tests.servers.process import until
from tests.servers.prometheus import Prometheus, program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations" / "alerts.md").read_text("utf-8")
LINK = "{{ $externalLabels.rmq_docs }}/operations/alerts/#"
RUNBOOK = re.compile(r"^## (.+)\n\n((?:(?!## ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
DURATION = re.compile(r"(?<=[\[ ])\d+[smh](?=[\]\s)])")
UNITS = {"s": 1, "m": 60, "h": 3600}


def promtool(*arguments: object) -> str:
    """Return what promtool prints; fail when it finds a fault."""
    done = subprocess.run([*program("promtool"), *map(str, arguments)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def seconds(text: str) -> float:
    return float(text[:-1]) * UNITS[text[-1]]


def limits_of(rule: dict[str, Any]) -> tuple[set[float], set[float]]:
    """Return the durations in seconds and the plain numbers of a rule."""
    durations = {seconds(text) for text in DURATION.findall(rule["expr"])}
    if "for" in rule:
        durations.add(seconds(rule["for"]))
    return durations, {float(text) for text in NUMBER.findall(DURATION.sub("", rule["expr"]))}


def bounds(name: str, severity: str) -> float:
    limit = getattr(LIMITS.stats, name)
    return float({"warning": limit.warn, "critical": limit.error}[severity])


EXPECTED: dict[tuple[str, str], tuple[set[float], set[float]]] = {
    ("RmqNoMetrics", "critical"): ({LIMITS.no_metrics}, set()),
    ("RmqServerUnreachable", "critical"): ({LIMITS.unreachable}, {0}),
    ("RmqNumbersStale", "warning"): ({LIMITS.stale}, {LIMITS.old_numbers}),
    ("RmqQueueUnreadable", "warning"): ({LIMITS.unreadable}, {0}),
    ("RmqBacklogGrowing", "warning"): (
        {LIMITS.growth_within / 3, LIMITS.growth_within * 2 / 3, LIMITS.recent},
        {LIMITS.growth, 0, 1},
    ),
    ("RmqOldestMessageTooOld", "warning"): ({LIMITS.late}, {bounds("oldest_age", "warning")}),
    ("RmqOldestMessageTooOld", "critical"): (
        {LIMITS.late},
        {bounds("oldest_age", "critical"), bounds("oldest_age", "critical") / bounds("oldest_age", "warning")},
    ),
    ("RmqDeadLetters", "warning"): ({LIMITS.dead_within}, {bounds("dead_letters", "warning")}),
    ("RmqDeadLetters", "critical"): ({LIMITS.dead_within}, {bounds("dead_letters", "critical")}),
    ("RmqLeasesExpired", "warning"): ({LIMITS.expired}, {0}),
    ("RmqLeaseHeldTooLong", "warning"): (set(), {bounds("lease_age", "warning")}),
    ("RmqCrashLoop", "warning"): ({LIMITS.crashing, LIMITS.looping}, {0}),
    ("RmqQueuePaused", "warning"): ({LIMITS.paused}, {1}),
    ("RmqNoConsumer", "warning"): ({LIMITS.recent, LIMITS.idle}, {0, 1}),
    ("RmqMessagesIsolated", "warning"): ({LIMITS.isolated}, {bounds("isolated", "warning")}),
}


def named(rule: dict[str, Any]) -> tuple[str, str]:
    return rule["alert"], rule["labels"]["severity"]


def test_promtool_accepts_the_rules_and_the_configuration(tmp_path: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "--lint-fatal", RULES_FILE)
    promtool("check", "config", RULES_FILE.with_name("prometheus.yml"))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_alerts_fire_when_they_should_and_only_then(scene: Scene, tmp_path: Path) -> None:
    tests = {"rule_files": [str(RULES_FILE)], "evaluation_interval": "1m", "tests": [group(scene, RULES)]}
    file = tmp_path / "rules.test.yml"
    file.write_text(yaml.safe_dump(tests, sort_keys=False))
    assert "SUCCESS" in promtool("test", "rules", file)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_situation_in_which_it_fires_and_a_moment_before_at_which_it_does_not(alert: str) -> None:
    assert any(scene.fires(alert) and scene.silent(alert) for scene in SCENES)


def test_every_rule_has_a_situation() -> None:
    assert {rule["alert"] for rule in RULES} == set(ALERTS)
    found = {(alert, severity) for scene in SCENES for (_, alert), said in scene.said.items() for severity, *_ in said}
    assert found == {named(rule) for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "-".join(named(rule)))
def test_a_rule_has_the_limits_that_the_checks_of_the_orchestrators_use(rule: dict[str, Any]) -> None:
    assert limits_of(rule) == EXPECTED[named(rule)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "-".join(named(rule)))
def test_a_rule_has_a_summary_a_description_and_a_runbook(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    place, anchor = rule["annotations"]["runbook_url"].split("#")
    assert f"{place}#" == LINK
    runbooks = {slugify(title, "-"): text for title, text in RUNBOOK.findall(PAGE)}
    assert f"`{rule['alert']}`" in runbooks[anchor].partition("\n")[0], "the runbook of this alert"
    assert f"| [`{rule['alert']}`](#{anchor}) |" in PAGE, "its row in the table"


def test_a_prometheus_evaluates_the_rules_and_fires(prometheus: Prometheus) -> None:
    groups = prometheus.get("rules")["groups"]
    rules = [rule for each in groups for rule in each["rules"]]
    assert len(rules) == len(RULES)
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
    until(lambda: ("RmqDeadLetters", "carriers") in firing(prometheus), 30, 0.2)
    place = "https://docs.example.com/rmq/operations/alerts/#dead-letters"
    assert set(firing(prometheus).values()) == {place}  # the others have to last before they fire


def firing(prometheus: Prometheus) -> dict[tuple[str, str], str]:
    """Return the runbooks of the alerts that fire, by alert and queue."""
    return {
        (alert["labels"]["alertname"], alert["labels"]["queue"]): alert["annotations"]["runbook_url"]
        for alert in prometheus.get("alerts")["alerts"]
        if alert["state"] == "firing"
    }
