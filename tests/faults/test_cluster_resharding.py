"""Another node of a cluster takes a queue over while work goes on: nothing is lost, nothing is done twice.

While keys are moved, the cluster refuses scripts with ASK, MOVED or TRYAGAIN, and the drivers send them again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from rmq_core.protocol import DISCIPLINES
from tests.core.conformance.stages import STAGES, Place, Stage
from tests.core.conformance.subject import Subject
from tests.faults import tally
from tests.faults.load import Grouped, Load, Sharded, end
from tests.faults.patience import PATIENCE_S, eventually
from tests.servers import CLUSTERS, Cluster, Server

PAUSE_S = 0.01


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both clusters, and both ways to lose a node, in full length; one of them in the short form."""
    full = metafunc.config.getoption("faults") == "full"
    if "fault" in metafunc.fixturenames:
        metafunc.parametrize("fault", [Server.kill9, Server.pause][: None if full else 1])
    if "cluster" in metafunc.fixturenames:
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


@pytest.fixture(params=list(STAGES))
def silent(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Stage]:
    """A stage whose clients soon notice a node that does not answer."""
    made = STAGES[request.param](Place(cluster.name, f"{cluster.url}?socket_timeout=1", ""))
    yield made
    made.close()


@pytest.fixture
def subjects(stage: Stage) -> Iterator[list[Subject]]:
    """A queue of each discipline, one with groups, and one in shards."""
    made = [*(Subject(stage, discipline) for discipline in DISCIPLINES), Grouped(stage), Sharded(stage)]
    yield made
    for subject in made:
        subject.close()


def quietly(fault: Callable[[Server], None], cluster: Cluster) -> Callable[[Server], None]:
    """Return a fault that hits a node whose replica has all its writes: those that it lacks would be lost with it."""

    def hit(node: Server) -> None:
        with node.client() as primary, cluster.nodes[-1].client() as replica:
            primary.client_pause(60_000, all=False)  # calls in flight wait; what they write is never written there
            eventually(
                lambda: (
                    replica.info("replication")["slave_repl_offset"]
                    >= primary.info("replication")["master_repl_offset"]
                )
            )
            fault(node)

    return hit


def move(cluster: Cluster, subject: Subject) -> None:
    """Move the queue to the node after its present one."""
    tag = subject.tag if isinstance(subject, Sharded) else f"{{{subject.name}}}"
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
            if isinstance(load.subject, Sharded):
                load.subject.change()
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


def test_the_replica_of_a_node_under_load_goes_on_with_its_queues(
    cluster: Cluster, silent: Stage, fault: Callable[[Server], None], *, full_faults: bool
) -> None:
    subjects = [*(Subject(silent, discipline) for discipline in DISCIPLINES), Sharded(silent)]
    held, loads = [subject.held(*range(-20, 0)) for subject in subjects], [Load(subject) for subject in subjects]
    for subject in subjects if full_faults else subjects[:1]:
        for load in loads:
            load.grows(published=10, acked=10)
        cluster.fail_over(cluster.owner(f"{{{subject.name}}}"), quietly(fault, cluster))
        tally.count("replica of a node of a cluster promoted under load")
        for load in loads:
            load.grows(published=10, acked=10)
    end(loads)
    for load, (worker, lease) in zip(loads, held, strict=True):
        assert worker.ack(lease).settled == 20, load.subject.discipline
        assert load.delivered == load.acked == Counter(load.published), load.subject.discipline
        assert load.subject.counts() == (0, 0, 0, 0, 0), load.subject.discipline
    for subject in subjects:
        subject.close()


def test_a_waiting_claim_follows_its_queue_to_another_node(cluster: Cluster, subjects: list[Subject]) -> None:
    for subject in subjects:
        subject.held(1)
        waiting = subject.in_background(subject.open().claim, wait=PATIENCE_S)
        time.sleep(0.05)
        move(cluster, subject)
        subject.publish(2)
        assert waiting.result(PATIENCE_S).message.payload == subject.payload(2), subject.discipline
