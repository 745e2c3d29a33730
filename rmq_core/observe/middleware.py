"""Middleware: what runs around a whole operation, such as the journal, spans, and the headers of a publisher."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from rmq_core.exchange import Exchange


class Invocation(NamedTuple):
    """A call of a queue's method, before its operation begins."""

    engine: Any
    verb: str
    operation: Callable[..., Exchange[Any]]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def exchange(self) -> Exchange[Any]:
        return self.operation(self.engine, *self.args, **self.kwargs)


Begin: TypeAlias = Callable[[Invocation], Exchange[Any]]


def begin_with(queue: Any, wrap: Callable[[Begin, Invocation], Exchange[Any]]) -> None:
    """Run the later operations of a queue as `wrap(begin, invocation)`, in which `begin` is what ran them so far."""
    queue._begin = partial(wrap, queue._begin or Invocation.exchange)  # noqa: SLF001  no name for users of a queue
