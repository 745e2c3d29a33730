"""The definition of a promise, and how a discipline without its capability has to refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import pytest

from rmq_core import Lease, PayloadError, Unsupported
from tests.core.conformance.subject import KINDS, Subject

Body: TypeAlias = Callable[[Subject], None]
EVERY = "every queue"


class Promise(NamedTuple):
    """A sentence, the capability it needs, the check that it is kept, and the check where the capability is missing."""

    sentence: str
    capability: str
    kept: Body
    without: Body | None

    def check(self, subject: Subject) -> str:
        """Check it: return `kept` or `refused`."""
        if self.without is None or subject.able(self.capability):
            self.kept(subject)
            return "kept"
        self.without(subject)
        return "refused"


PROMISES: list[Promise] = []


def promise(body: Body) -> Body:
    """A promise of every discipline; the name of the function is the sentence."""
    PROMISES.append(Promise(_sentence(body), EVERY, body, None))
    return body


def promise_of(capability: str, without: Body) -> Callable[[Body], Body]:
    """A promise of the disciplines with a capability; all others are checked by `without`."""

    def declare(body: Body) -> Body:
        PROMISES.append(Promise(_sentence(body), capability, body, without))
        return body

    return declare


def refused(*calls: Callable[[Any, Lease], object], says: str = " has no ") -> Body:
    """Each call (of a queue and a lease of one message) raises Unsupported and changes nothing.

    A payload of a wrong kind may also be a PayloadError, which says what the queue takes.
    """

    def check(subject: Subject) -> None:
        subject.publish(1, 2)
        lease = subject.queue.claim()
        before = subject.counts()
        for call in calls:
            with pytest.raises((Unsupported, PayloadError), match=says):
                call(subject.queue, lease)
        assert subject.counts() == before
        assert subject.queue.ack(lease).settled == 1

    return check


def rows() -> list[str]:
    """All parts of the protocol, in the order of the report."""
    from rmq_core.protocol import Capabilities

    flags = [name for name, value in Capabilities()._asdict().items() if isinstance(value, bool)]
    return [EVERY, *flags, *(f"{kind} payload" for kind in sorted(KINDS["any"]))]


def _sentence(body: Body) -> str:
    return str(body.__name__).replace("_", " ")
