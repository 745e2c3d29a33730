"""Every promise of the queue protocol: over all disciplines, sync and async, on every server and cluster.

A discipline that does not declare the capability behind a promise must refuse the call; the test then asserts the
refusal. The promises are in `tests/core/conformance`; `catalogue` writes them into docs/reference/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rmq_core.protocol import DISCIPLINES, Capabilities
from tests.core.conformance.catalogue import PAGE, page
from tests.core.conformance.kits import KITS
from tests.core.conformance.promises import EVERY, PROMISES, Promise, rows
from tests.core.conformance.report import RECORD, Trial, render, rows_of
from tests.core.conformance.stages import STAGES, Place, Stage, find_place
from tests.core.conformance.subject import Subject
from tests.covering import place_names, places


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with `place` on every server and cluster of this run."""
    if "place" in metafunc.fixturenames:
        metafunc.parametrize("place", places(metafunc, place_names(metafunc.config)), indirect=True, scope="session")


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with find_place(request.param) as found:
        yield found


@pytest.fixture(scope="session", params=list(STAGES))
def stage(request: pytest.FixtureRequest, place: Place) -> Iterator[Stage]:
    made = STAGES[request.param](place)
    yield made
    made.close()


@pytest.fixture(params=list(DISCIPLINES))
def subject(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Subject]:
    made = Subject(stage, request.param)
    yield made
    made.close()


@pytest.mark.everywhere
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.sentence.replace(" ", "-"))
def test_a_promise_is_kept_or_refused(
    promise: Promise, subject: Subject, record_property: Callable[[str, object], None]
) -> None:
    place = subject.stage.place
    trial = Trial(subject.discipline, promise.capability, promise.sentence, place.name, place.version, "failed")
    record_property(RECORD, tuple(trial))
    record_property(RECORD, tuple(trial._replace(verdict=promise.check(subject))))


def test_every_capability_has_a_promise() -> None:
    assert {promise.capability for promise in PROMISES} == set(rows())
    assert {*rows()} - {EVERY} > {name for name, value in Capabilities()._asdict().items() if value is False}


def test_every_discipline_is_tried() -> None:
    assert set(KITS) >= set(DISCIPLINES)


def test_the_report_shows_what_was_kept_refused_and_failed() -> None:
    seen = [
        ("leased", EVERY, "a", "kept"),
        ("leased", EVERY, "a", "kept"),
        ("leased", "delay", "b", "kept"),
        ("leased", "delay", "c", "failed"),
        ("rotation", "delay", "b", "refused"),
    ]
    trials = [Trial(*trial[:3], "7.0-cluster", "Redis 7.0.15", trial[3]) for trial in seen]
    text = "\n".join(render(trials))
    assert "| Redis 7.0.15, cluster |" in text
    leased, rotation = rows_of(text, "leased"), rows_of(text, "rotation")
    assert (leased[EVERY], leased["delay"], leased["dedup"]) == (["✓ 2"], ["✗ 1 of 2"], [""])
    assert rotation["delay"] == ["refused 1"]


def test_the_docs_page_states_what_each_discipline_declares_and_its_meaning() -> None:
    assert PAGE.read_text("utf-8") == "\n".join(page()) + "\n", "run `python -m tests.core.conformance.catalogue`"
