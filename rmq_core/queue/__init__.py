"""What the façades of all disciplines share: running operations, heartbeats, `process`, closing. No Redis commands."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import update_wrapper
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from rmq_core.exchange import Exchange
from rmq_core.messages import Lease
from rmq_core.protocol import Capabilities

P = ParamSpec("P")
R = TypeVar("R")


class Engine(Protocol):
    """What a façade asks of the state that the operations of a queue share.

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


E = TypeVar("E", bound=Engine)


class Method(Generic[E, P, R]):
    """An operation in the list of a discipline; the façades make methods of it, one that blocks and one to await.

    once: whether it makes one attempt, by the driver of the native calls, instead of being sent again.
    """

    def __init__(self, operation: Callable[Concatenate[E, P], Exchange[R]], *, once: bool = False) -> None:
        self.operation, self.once = operation, once

    @overload
    def __get__(self, queue: Blocking, kind: object) -> Callable[P, R]: ...
    @overload
    def __get__(self, queue: Awaited, kind: object) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, queue: None, kind: type[Blocking]) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, queue: None, kind: type[Awaited]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]: ...
    def __get__(self, queue: object, kind: object) -> Any:
        return self  # a façade has put a method in its place

    def show(self, call: Callable[..., Any], returns: Callable[[Any], Any]) -> Callable[..., Any]:
        """The method `call` of a façade, as `help` shows it: like the operation, without its engine."""
        shown: Any = update_wrapper(call, self.operation)
        shown.__wrapped__ = Shown(self.operation, returns)
        return call


class QueueBase(Generic[E]):
    """What the queues of a discipline have in common, blocking or not. A discipline lists its operations in a subclass.

    Beside Method, that subclass says what heartbeats and the last moment before closing need.
    """

    discipline: str
    capabilities: Capabilities
    _closed = False

    def __init__(self, redis: Any, engine: E) -> None:
        self.name, self._engine = engine.name, engine
        self._connect(redis)

    @classmethod
    def _add_methods(cls, make: Callable[[Method[Any, ..., Any]], Callable[..., Any]]) -> None:
        """Put a method in the place of each operation that this class lists or inherits."""
        for name in dir(cls):
            if isinstance(listed := getattr(cls, name), Method):
                method: Any = make(listed)
                for shown in (method, method.__wrapped__):
                    shown.__module__, shown.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
                setattr(cls, name, method)

    def _connect(self, redis: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def _extend_all(engine: Any, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
        """Behind heartbeats, where leases can be extended."""
        del engine
        yield from ()
        return [False] * len(leases)

    @staticmethod
    def _leave(engine: Any) -> Exchange[None]:
        """What is to be done before closing."""
        del engine
        yield from ()

    @property
    def _verbs(self) -> Any:
        """This queue, with the operations that its class adds."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Blocking:
    """Marks a queue whose methods block."""


class Awaited:
    """Marks a queue whose methods are awaited."""


class Shown:
    """An operation as `help` and `inspect` show the method that runs it: without engine and Exchange.

    The signature is made when somebody asks for it: making them all would slow down the import. returns: what a call
    of the method gives for the result of the operation.
    """

    def __init__(self, operation: Callable[..., Any], returns: Callable[[Any], Any]) -> None:
        self._operation, self._returns = operation, returns
        self.__doc__ = operation.__doc__

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
            result = None if result is type(None) else result
        return found.replace(parameters=[me, *given], return_annotation=self._returns(result))
