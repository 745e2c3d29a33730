"""Situations for the alerts, with what each alert says in them; `promtool test rules` evaluates them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

ALERTS = (
    "RmqNoMetrics",
    "RmqServerUnreachable",
    "RmqNumbersStale",
    "RmqQueueUnreadable",
    "RmqBacklogGrowing",
    "RmqOldestMessageTooOld",
    "RmqDeadLetters",
    "RmqLeasesExpired",
    "RmqLeaseHeldTooLong",
    "RmqCrashLoop",
    "RmqQueuePaused",
    "RmqNoConsumer",
    "RmqMessagesIsolated",
)
SERVER = {"instance": "rmq:8484", "job": "rmq"}
FLIGHTS = {**SERVER, "queue": "flights", "discipline": "leased"}
URGENT, NIGHTLY = {**FLIGHTS, "queue": "urgent"}, {**FLIGHTS, "queue": "nightly"}
RELIABLE = {**FLIGHTS, "discipline": "reliable"}  # a discipline without counters of events
CLAIMED, DEAD, RECLAIMED = ({**FLIGHTS, "event": event} for event in ("claimed", "dead", "reclaimed"))


class Fired(NamedTuple):
    """An alert that fires, with the labels of its series and its texts."""

    severity: str
    labels: dict[str, str]
    summary: str
    description: str


@dataclass(frozen=True)
class Scene:
    """Samples, one a minute, and the alerts at some minutes of them.

    samples: values in promtool's notation, by metric and labels. said: what fires, by minute and alert; an empty tuple
    is silence.
    """

    name: str
    samples: tuple[tuple[str, dict[str, str], str], ...]
    said: dict[tuple[int, str], tuple[Fired, ...]]
    external_labels: dict[str, str] = field(default_factory=dict)

    def fires(self, alert: str) -> bool:
        """Whether the alert fires at some minute."""
        return any(found for (_, name), found in self.said.items() if name == alert)

    def silent(self, alert: str) -> bool:
        """Whether the alert is silent at some minute."""
        return any(not found for (_, name), found in self.said.items() if name == alert)


def series(name: str, labels: dict[str, str]) -> str:
    """Return a series in the notation of Prometheus."""
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def group(scene: Scene, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scene as a test group of promtool; `rules` give the link, which is the same in all situations."""
    pages = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}
    place = scene.external_labels.get("rmq_docs", "")
    links = {alert: page.replace("{{ $externalLabels.rmq_docs }}", place) for alert, page in pages.items()}
    return {
        "name": scene.name,
        "interval": "1m",
        "external_labels": scene.external_labels,
        "input_series": [{"series": series(name, labels), "values": values} for name, labels, values in scene.samples],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": alert,
                "exp_alerts": [
                    {
                        "exp_labels": {**each.labels, "severity": each.severity},
                        "exp_annotations": {
                            "summary": each.summary,
                            "description": each.description,
                            "runbook_url": links[alert],
                        },
                    }
                    for each in found
                ],
            }
            for (minute, alert), found in scene.said.items()
        ],
    }


def _old(severity: str, labels: dict[str, str], age: str) -> Fired:
    bound = {"warning": "the target", "critical": "six times the target"}[severity]
    queue = labels["queue"]
    return Fired(
        severity,
        labels,
        f"The oldest message of {queue} is {age} old",
        f"The next message of {queue} was published {age} ago, which is more than {bound} of this queue (10 minutes by "
        "default), and nobody has claimed it for 5 minutes.",
    )


def _some_dead(count: int, labels: dict[str, str]) -> Fired:
    return Fired(
        "warning",
        labels,
        "flights has new dead letters",
        f"{count} messages of flights became dead letters in the last hour. They are not delivered until somebody "
        "redrives them.",
    )


def _many_dead(count: int) -> Fired:
    return Fired(
        "critical",
        FLIGHTS,
        f"flights has {count} new dead letters",
        f"{count} messages of flights became dead letters in the last hour: probably not single bad messages, but "
        "their consumer or a service that it needs. Pause the queue if they go on.",
    )


def _idle(count: int, labels: dict[str, str]) -> Fired:
    return Fired(
        "warning",
        labels,
        "Nobody consumes flights",
        f"{count} messages of flights are ready, and for at least 10 minutes nobody has held or claimed any.",
    )


NO_METRICS = Fired(
    "critical",
    {},
    "Prometheus gets no metrics of RMQ",
    "No target has exposed `rmq_up` for 5 minutes. No other alert of RMQ can fire until one does.",
)
UNREACHABLE = Fired(
    "critical",
    SERVER,
    "Redis does not answer rmq:8484",
    "`rmq serve` at rmq:8484 has got no answer from Redis for 2 minutes. Publishers and consumers that use the same "
    "server wait, and give up after their retry budget (30 s by default).",
)
STALE = Fired(
    "warning",
    SERVER,
    "The numbers of rmq:8484 are 10m 0s old",
    "For 5 minutes `rmq serve` at rmq:8484 has served numbers that it read more than 2 minutes earlier. The other "
    "alerts of RMQ are late by as much.",
)
UNREADABLE = Fired(
    "warning",
    FLIGHTS,
    "The queue flights cannot be read",
    "Redis answers, but `rmq serve` at rmq:8484 has not been able to read the leased queue flights for 5 minutes. No "
    "other alert of this queue can fire.",
)
GROWING = Fired(
    "warning",
    FLIGHTS,
    "The backlog of flights is growing",
    "For 10 minutes at least 200 more messages have been ready in flights than 20 minutes earlier, and the number is "
    "rising: more are published than acked.",
)
EXPIRED = Fired(
    "warning",
    FLIGHTS,
    "Expired leases of flights are not reclaimed",
    "2 leases of flights have expired, and for 5 minutes there have been such leases. Their messages are not ready, so "
    "that no consumer gets them.",
)


def _held(labels: dict[str, str], age: str) -> Fired:
    queue = labels["queue"]
    return Fired(
        "warning",
        labels,
        f"A lease of {queue} is held for {age}",
        f"A consumer of {queue} claimed messages {age} ago and still holds some of them, which is more than the target "
        "of this queue (15 minutes by default). It may hang while its heartbeats go on.",
    )


LOOPING = Fired(
    "warning",
    FLIGHTS,
    "Leases of flights expire again and again",
    "2 messages of flights came back from expired leases in the last 10 minutes, and others in the 10 minutes before: "
    "consumers die or hang again and again, perhaps because of a message. Each time counts a delivery, and the "
    "messages become dead letters in the end.",
)
PAUSED = Fired(
    "warning",
    FLIGHTS,
    "The queue flights is paused",
    "flights has been paused for 30 minutes: claims get nothing, and publishing goes on.",
)
ISOLATED = Fired(
    "warning",
    FLIGHTS,
    "Messages of flights fail together",
    "4 messages of flights failed together and are tried apart from the others; there have been such messages for 15 "
    "minutes. One of them probably makes its workers fail.",
)

SCENES = (
    Scene(
        "a queue that is worked off, with old dead letters",
        (
            ("rmq_up", SERVER, "1x120"),
            ("rmq_reading_age_seconds", SERVER, "17x120"),
            ("rmq_queue_readable", FLIGHTS, "1x120"),
            ("rmq_ready_messages", FLIGHTS, " ".join(["20 250 90 10 0"] * 24)),
            ("rmq_leased_messages", FLIGHTS, " ".join(["0 30 30 10 0"] * 24)),
            ("rmq_isolated_messages", FLIGHTS, "0x120"),
            ("rmq_expired_leases", FLIGHTS, "0x120"),
            ("rmq_oldest_lease_age_seconds", FLIGHTS, " ".join(["_ 60 120 180 _"] * 24)),
            ("rmq_dead_letters", FLIGHTS, "7x120"),
            ("rmq_oldest_ready_age_seconds", FLIGHTS, " ".join(["5 40 100 150 _"] * 24)),
            ("rmq_paused", FLIGHTS, "0x120"),
            ("rmq_messages_total", CLAIMED, "1000+50x120"),
            ("rmq_messages_total", DEAD, "7x120"),
            ("rmq_messages_total", RECLAIMED, "3x120"),
        ),
        {(minute, alert): () for minute in (60, 115) for alert in ALERTS},
    ),
    Scene(
        "nothing is scraped",
        (("up", {"job": "rmq"}, "0x10"),),
        {(4, "RmqNoMetrics"): (), (5, "RmqNoMetrics"): (NO_METRICS,)},
    ),
    Scene(
        "Redis stops answering",
        (("rmq_up", SERVER, "1x4 0x10"),),
        {(6, "RmqServerUnreachable"): (), (7, "RmqServerUnreachable"): (UNREACHABLE,)},
    ),
    Scene(
        "the numbers are not read any more",
        (("rmq_up", SERVER, "1x20"), ("rmq_reading_age_seconds", SERVER, "0+60x20")),
        {(7, "RmqNumbersStale"): (), (10, "RmqNumbersStale"): (STALE,), (10, "RmqServerUnreachable"): ()},
    ),
    Scene(
        "one reading takes long",
        (("rmq_reading_age_seconds", SERVER, "17 60 180 240 17 17 180 180 180 17x9"),),
        {(minute, "RmqNumbersStale"): () for minute in (3, 8, 15)},
    ),
    Scene(
        "a queue cannot be read",
        (("rmq_queue_readable", FLIGHTS, "1x4 0x10"),),
        {(9, "RmqQueueUnreadable"): (), (10, "RmqQueueUnreadable"): (UNREADABLE,)},
    ),
    Scene(
        "more is published than acked",
        (("rmq_ready_messages", FLIGHTS, "0+20x40"), ("rmq_paused", FLIGHTS, "0x40")),
        {(24, "RmqBacklogGrowing"): (), (25, "RmqBacklogGrowing"): (GROWING,)},
    ),
    Scene(
        "a batch is published and worked off",
        (("rmq_ready_messages", FLIGHTS, "0x29 100000-500x60"),),
        {(minute, "RmqBacklogGrowing"): () for minute in (31, 36, 45, 55, 70)},
    ),
    Scene(
        "a paused queue grows",
        (("rmq_ready_messages", FLIGHTS, "0+20x40"), ("rmq_paused", FLIGHTS, "1x40")),
        {(35, "RmqBacklogGrowing"): ()},
    ),
    Scene(
        "nobody claims the oldest message",
        (("rmq_oldest_ready_age_seconds", FLIGHTS, "0+60x70"),),
        {
            (15, "RmqOldestMessageTooOld"): (),
            (16, "RmqOldestMessageTooOld"): (_old("warning", FLIGHTS, "16m 0s"),),
            (66, "RmqOldestMessageTooOld"): (
                _old("warning", FLIGHTS, "1h 6m 0s"),
                _old("critical", FLIGHTS, "1h 6m 0s"),
            ),
        },
    ),
    Scene(
        "two of three queues have a target of their own",
        (
            ("rmq:oldest_age_target_seconds", {"queue": "urgent"}, "60x20"),
            ("rmq:oldest_age_target_seconds", {"queue": "nightly"}, "86400x20"),
            ("rmq_oldest_ready_age_seconds", URGENT, "300x20"),
            ("rmq_oldest_ready_age_seconds", NIGHTLY, "40000x20"),
            ("rmq_oldest_ready_age_seconds", FLIGHTS, "500x20"),
        ),
        {(5, "RmqOldestMessageTooOld"): (_old("warning", URGENT, "5m 0s"),)},
    ),
    Scene(
        "a queue is far above its own target",
        (
            ("rmq:oldest_age_target_seconds", {"queue": "urgent"}, "60x20"),
            ("rmq_oldest_ready_age_seconds", URGENT, "390x20"),
        ),
        {
            (5, "RmqOldestMessageTooOld"): (
                _old("warning", URGENT, "6m 30s"),
                _old("critical", URGENT, "6m 30s"),
            )
        },
    ),
    Scene(
        "some messages become dead letters",
        (("rmq_messages_total", DEAD, "0x9 3x90"), ("rmq_dead_letters", FLIGHTS, "0x9 3x90")),
        {
            (9, "RmqDeadLetters"): (),
            (10, "RmqDeadLetters"): (_some_dead(3, FLIGHTS),),
            (60, "RmqDeadLetters"): (_some_dead(3, FLIGHTS),),
            (80, "RmqDeadLetters"): (),
        },
    ),
    Scene(
        "a consumer fails with everything",
        (("rmq_messages_total", DEAD, "0x9 150x30"),),
        {(10, "RmqDeadLetters"): (_some_dead(150, FLIGHTS), _many_dead(150))},
    ),
    Scene(
        "dead letters are imported",
        (("rmq_messages_total", DEAD, "0x40"), ("rmq_dead_letters", FLIGHTS, "0x9 9x30")),
        {(20, "RmqDeadLetters"): ()},
    ),
    Scene(
        "a discipline without counters has new dead letters",
        (("rmq_dead_letters", RELIABLE, "5x9 8x30"),),
        {(9, "RmqDeadLetters"): (), (30, "RmqDeadLetters"): (_some_dead(3, RELIABLE),)},
    ),
    Scene(
        "dead letters are redriven",
        (("rmq_dead_letters", RELIABLE, "8x9 5x30"),),
        {(20, "RmqDeadLetters"): ()},
    ),
    Scene(
        "nobody reclaims expired leases",
        (("rmq_expired_leases", FLIGHTS, "0x4 2x20"),),
        {(9, "RmqLeasesExpired"): (), (10, "RmqLeasesExpired"): (EXPIRED,)},
    ),
    Scene(
        "expired leases are reclaimed",
        (("rmq_expired_leases", FLIGHTS, " ".join(["0 0 0 1"] * 6)),),
        {(minute, "RmqLeasesExpired"): () for minute in (3, 11, 20)},
    ),
    Scene(
        "a holder hangs, and its heartbeats go on",
        (
            ("rmq_oldest_lease_age_seconds", FLIGHTS, "0+60x20"),
            ("rmq_leased_messages", FLIGHTS, "94x20"),
            ("rmq_ready_messages", FLIGHTS, "0x20"),
        ),
        {(15, "RmqLeaseHeldTooLong"): (), (16, "RmqLeaseHeldTooLong"): (_held(FLIGHTS, "16m 0s"),)},
    ),
    Scene(
        "two of three queues have a target of their own for leases",
        (
            ("rmq:lease_age_target_seconds", {"queue": "urgent"}, "60x20"),
            ("rmq:lease_age_target_seconds", {"queue": "nightly"}, "86400x20"),
            ("rmq_oldest_lease_age_seconds", URGENT, "90x20"),
            ("rmq_oldest_lease_age_seconds", NIGHTLY, "40000x20"),
            ("rmq_oldest_lease_age_seconds", FLIGHTS, "900x20"),
        ),
        {(5, "RmqLeaseHeldTooLong"): (_held(URGENT, "1m 30s"),)},
    ),
    Scene(
        "a message kills its workers",
        (("rmq_messages_total", RECLAIMED, " ".join(str(minute // 5) for minute in range(60))),),
        {(19, "RmqCrashLoop"): (), (35, "RmqCrashLoop"): (LOOPING,)},
    ),
    Scene(
        "a host dies once, with several leases",
        (("rmq_messages_total", RECLAIMED, "0x9 4 7 9x60"),),
        {(minute, "RmqCrashLoop"): () for minute in (11, 15, 20, 25, 30)},
    ),
    Scene(
        "a queue stays paused",
        (
            ("rmq_paused", FLIGHTS, "1x40"),
            ("rmq_ready_messages", FLIGHTS, "5x40"),
            ("rmq_leased_messages", FLIGHTS, "0x40"),
        ),
        {(29, "RmqQueuePaused"): (), (30, "RmqQueuePaused"): (PAUSED,), (30, "RmqNoConsumer"): ()},
    ),
    Scene(
        "a queue is paused for some minutes",
        (("rmq_paused", FLIGHTS, "0x4 1x20 0x20"),),
        {(24, "RmqQueuePaused"): (), (40, "RmqQueuePaused"): ()},
    ),
    Scene(
        "there is work and no consumer",
        (
            ("rmq_ready_messages", FLIGHTS, "5x30"),
            ("rmq_leased_messages", FLIGHTS, "0x30"),
            ("rmq_messages_total", CLAIMED, "40x30"),
            ("rmq_paused", FLIGHTS, "0x30"),
        ),
        {(9, "RmqNoConsumer"): (), (10, "RmqNoConsumer"): (_idle(5, FLIGHTS),)},
    ),
    Scene(
        "a discipline without counters has no consumer",
        (("rmq_ready_messages", RELIABLE, "5x30"), ("rmq_leased_messages", RELIABLE, "0x30")),
        {(10, "RmqNoConsumer"): (_idle(5, RELIABLE),)},
    ),
    Scene(
        "a consumer settles before a scrape sees its lease",
        (
            ("rmq_ready_messages", FLIGHTS, "5x30"),
            ("rmq_leased_messages", FLIGHTS, "0x30"),
            ("rmq_messages_total", CLAIMED, "0+1x30"),
        ),
        {(20, "RmqNoConsumer"): ()},
    ),
    Scene(
        "a consumer works on one lease for an hour",
        (
            ("rmq_ready_messages", FLIGHTS, "5x60"),
            ("rmq_leased_messages", FLIGHTS, "100x60"),
            ("rmq_messages_total", CLAIMED, "40x60"),
        ),
        {(50, "RmqNoConsumer"): ()},
    ),
    Scene(
        "messages fail together",
        (("rmq_isolated_messages", FLIGHTS, "4x20"),),
        {(14, "RmqMessagesIsolated"): (), (15, "RmqMessagesIsolated"): (ISOLATED,)},
    ),
    Scene(
        "the search for a bad message ends",
        (("rmq_isolated_messages", FLIGHTS, "64x4 32x4 8x3 0x10"),),
        {(13, "RmqMessagesIsolated"): (), (20, "RmqMessagesIsolated"): ()},
    ),
    Scene(
        "the place of the documentation is known",
        (("rmq_paused", FLIGHTS, "1x40"),),
        {(30, "RmqQueuePaused"): (PAUSED,)},
        {"rmq_docs": "https://docs.example.com/rmq"},
    ),
)
