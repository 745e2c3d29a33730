"""What the façades of all disciplines share: running operations, heartbeats, `process`, closing. No Redis commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Protocol

from rmq_core.exchange import Exchange
from rmq_core.messages import Lease


class Behind(Protocol):
    """What a façade asks of the state its operations share.

    prefix: what the keys of the queue begin with. beat_s: for how many seconds heartbeats extend a lease; None for no
    heartbeats.
    """

    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> bytes: ...
    @property
    def retry_budget_s(self) -> float: ...
    @property
    def beat_s(self) -> float | None: ...


def lose_all(engine: object, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
    """No lease of this discipline can be extended."""
    del engine
    yield from ()
    return [False] * len(leases)


def leave_all(engine: object) -> Exchange[None]:
    """There is nothing to be done before closing."""
    del engine
    yield from ()


class Shown:
    """An operation as `help` and `inspect` show the method that runs it: without engine and Exchange.

    The signature is made when somebody asks for it: making them all would slow down the import. returns: what a call
    of the method gives for the result of the operation.
    """

    def __init__(self, operation: Callable[..., Any], returns: Callable[[Any], Any]) -> None:
        self._operation, self._returns = operation, returns

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operation(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # or `inspect.getsource` would not find the operation
        return FunctionType

    @property
    def __signature__(self) -> Any:
        from inspect import Parameter, iscoroutinefunction, signature  # noqa: PLC0415  only for those who ask
        from typing import get_args  # noqa: PLC0415  the same

        found = signature(self._operation, eval_str=True)
        given = list(found.parameters.values())[1:]
        me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        result = found.return_annotation
        if not iscoroutinefunction(self._operation):
            result = get_args(result)[-1]
        return found.replace(parameters=[me, *given], return_annotation=self._returns(result))
