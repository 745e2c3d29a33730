"""The slot of a queue moves to another node while work goes on: nothing is lost, nothing is done twice.

While keys are moved, the cluster refuses scripts with ASK, MOVED or TRYAGAIN, and the drivers send them again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.stages import STAGES, Place, Stage
from tests.core.conformance.subject import Subject
from tests.faults import tally
from tests.faults.load import Grouped, Load, end
from tests.faults.patience import PATIENCE_S
from tests.servers import CLUSTERS, Cluster

PAUSE_S = 0.01


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both clusters in full length; one of them in the short form."""
    if "cluster" in metafunc.fixturenames:
        full = metafunc.config.getoption("faults") == "full"
        metafunc.parametrize("cluster", list(CLUSTERS)[: None if full else 1], indirect=True, scope="module")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that faults may hit."""
    made = Cluster(CLUSTERS[request.param])
    yield made
    made.close()


@pytest.fixture(params=list(STAGES))
def stage(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Stage]:
    made = STAGES[request.param](Place(cluster.name, cluster.url, ""))
    yield made
    made.close()


@pytest.fixture
def subjects(stage: Stage) -> Iterator[list[Subject]]:
    """A queue of each discipline, and one with groups."""
    made = [*(Subject(stage, discipline) for discipline in DISCIPLINES), Grouped(stage)]
    yield made
    for subject in made:
        subject.close()


def move(cluster: Cluster, subject: Subject) -> None:
    """Move the queue to the node after its present one."""
    tag = f"{{{subject.name}}}"
    place = cluster.nodes.index(cluster.owner(tag))
    moved = cluster.move_slot(tag, cluster.nodes[(place + 1) % len(cluster.nodes)], PAUSE_S)
    assert moved, "there was nothing to move"
    tally.count("slot of a queue moved between nodes under load")
    tally.count("key of a queue moved between nodes under load", moved)


def test_resharding_under_load_loses_and_duplicates_nothing(
    cluster: Cluster, subjects: list[Subject], *, full_faults: bool
) -> None:
    held, before = [subject.held(*range(-20, 0)) for subject in subjects], cluster.refusals()
    loads = [Load(subject) for subject in subjects]
    for _ in range(6 if full_faults else 1):
        for load in loads:
            load.grows(published=10, acked=10)
            move(cluster, load.subject)
            load.grows(published=10, acked=10)
    end(loads)
    for load, (worker, lease) in zip(loads, held, strict=True):
        assert worker.ack(lease).settled == 20, load.subject.discipline
        assert load.delivered == load.acked == Counter(load.published), load.subject.discipline
        assert load.subject.counts() == (0, 0, 0, 0, 0), load.subject.discipline
        if isinstance(load.subject, Grouped):
            load.subject.check(load)
    met = {refusal: times - before[refusal] for refusal, times in cluster.refusals().items()}
    for refusal, times in met.items():
        tally.count(f"{refusal} answered under load", times)
    assert met["MOVED"]
    assert met["ASK"] + met["TRYAGAIN"]


def test_a_waiting_claim_follows_its_queue_to_another_node(cluster: Cluster, subjects: list[Subject]) -> None:
    for subject in subjects:
        subject.held(1)
        waiting = subject.in_background(subject.open().claim, wait=PATIENCE_S)
        time.sleep(0.05)
        move(cluster, subject)
        subject.publish(2)
        assert waiting.result(PATIENCE_S).message.payload == subject.payload(2), subject.discipline
