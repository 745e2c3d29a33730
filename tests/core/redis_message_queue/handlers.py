"""What a consumer does with a message, each as one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def handle(queue: Any, *steps: Callable[[], Any], error: BaseException | None = None) -> Any:
    """Process the next message: run the steps while it is claimed, then raise `error`; return it or None."""
    with queue.process_message() as message:
        for step in steps:
            step()
        if error:
            raise error
    return message


def fail(queue: Any) -> None:
    """Process the next message with a handler that raises an exception, which is caught here."""
    try:
        handle(queue, error=ZeroDivisionError("the handler failed"))
    except ZeroDivisionError:
        return
    raise AssertionError("the handler's exception was swallowed")


def abandon(queue: Any) -> Any:
    """Claim the next message and never settle it; return it."""
    return queue.process_message().__enter__()
