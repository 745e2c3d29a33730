"""The parts of every queue: an engine, a list of operations, and the methods that run them.

Law: an operation is listed once. Each queue class, blocking or asyncio, makes its methods from that list.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from functools import cache, update_wrapper
from time import monotonic
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_origin, overload

from rmq_core.connection.clients import name_of
from rmq_core.exchange import Exchange
from rmq_core.kernel.keys import Keys
from rmq_core.kernel.registry import provisional
from rmq_core.kernel.settings import Following, following
from rmq_core.messages import Lease
from rmq_core.observe.fact import Begin, Invocation
from rmq_core.observe.journal import journaled
from rmq_core.policy import seconds
from rmq_core.protocol import Capabilities
from rmq_core.twin import Awaited, Blocking

if TYPE_CHECKING:  # its module imports this one
    from rmq_core.observe.tally import Tally

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])
K = TypeVar("K")
W = TypeVar("W", bound=Blocking | Awaited)
"""How the methods of a part are called, for type checkers: they block or are awaited."""


class Engine(Protocol):
    """The part of the state shared by a queue's operations that the queue classes use.

    prefix: the common prefix of the queue's keys. heartbeat_s: for how many seconds heartbeats extend a lease; None for
    no heartbeats. registered: whether the name is registered for tools, or must not be. simple: nothing is to be done
    around its operations: the stored settings are known, and it keeps no journal. tally: what is not flushed to the
    history yet; None if this client does not record.
    """

    registered: int
    simple: bool

    @property
    def layouts(self) -> tuple[str, ...]: ...
    @property
    def tally(self) -> Tally | None: ...
    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> bytes: ...
    @property
    def retry_budget_s(self) -> float: ...
    @property
    def heartbeat_s(self) -> float | None: ...


class Budgeted(Protocol):
    """The part of a config that says how long a call is retried."""

    @property
    def retry_budget(self) -> timedelta | float: ...


class KeyedEngine:
    """What the engines of most disciplines read from their keys and config."""

    __slots__ = ()
    keys: Keys
    config: Budgeted
    simple = True

    def routed(self, operation: Callable[..., Exchange[Any]]) -> Callable[..., Exchange[Any]]:
        """Return the operation that is to be run instead of this one."""
        return operation

    @property
    def layouts(self) -> tuple[str, ...]:
        """How the queue may be stored; see `exchange.loading`."""
        return self.keys.layouts

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def prefix(self) -> bytes:
        return self.keys.prefix

    @property
    def retry_budget_s(self) -> float:
        return seconds("retry_budget", self.config.retry_budget)


E = TypeVar("E", bound=Engine)


class Method(Generic[E, P, R]):
    """An operation that a discipline lists. Each queue class makes a method of it: one blocks, the other is awaited.

    once: whether the operation makes a single attempt, with the driver of the native calls, and is never resent.
    """

    def __init__(self, operation: Callable[Concatenate[E, P], Exchange[R]], *, once: bool = False) -> None:
        self.operation, self.once = operation, once

    @overload
    def __get__(self, queue: Blocking | QueuePart[Any, Blocking], kind: object) -> Callable[P, R]: ...
    @overload
    def __get__(
        self, queue: Awaited | QueuePart[Any, Awaited], kind: object
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, queue: None, kind: type[Blocking]) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, queue: None, kind: type[Awaited]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]: ...
    def __get__(self, queue: object, kind: object) -> Any:
        return self  # a queue class replaces this object by a method


def _method_of(queue_class: type, name: str, listed: Method[Any, ..., Any]) -> Callable[..., Any]:
    operation, blocking = listed.operation, not issubclass(queue_class, Awaited)

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        engine = self._engine
        if self._begin is None and engine.simple and engine.registered:
            exchange = operation(engine, *args, **kwargs)
        else:
            exchange = _begun(self, Invocation(engine, name, operation, args, kwargs))
        result = self._driver.run(exchange)
        tally = self._tally
        if tally is None or (blocking and not (tally.noted and monotonic() >= tally.next_at)):
            return result
        return self._counted(result)

    def call_once(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = self._native.run(operation(self._engine, *args, **kwargs))
        return result if self._tally is None else self._counted(result, self._native)

    run: Callable[..., Any] = call_once if listed.once else call

    def of_part(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run(self._queue, *args, **kwargs)

    returns = _coroutine_of if issubclass(queue_class, Awaited) else _itself
    method: Any = shown_as(operation, of_part if issubclass(queue_class, QueuePart) else run, returns)
    for each in (method, method.__wrapped__):
        each.__module__, each.__name__ = queue_class.__module__, name
        each.__qualname__ = f"{queue_class.__qualname__}.{name}"
    method.listed = listed
    return method  # type: ignore[no-any-return]


def _begun(queue: Any, call: Invocation) -> Exchange[Any]:
    """Run an operation with what is to be done around it, once the stored settings are known: they decide on it."""
    engine, begin = call.engine, queue._begin or Invocation.exchange  # noqa: SLF001  the same module
    if not engine.simple:
        yield from following(engine, call.verb)
        routed = engine.routed(call.operation)
        call = call if routed is call.operation else call._replace(operation=routed)
    exchange = journaled(begin, call) if getattr(engine, "journal", None) else begin(call)
    return (yield from exchange if engine.registered else provisional(engine, queue.discipline, exchange))


def _itself(result: Any) -> Any:
    return result


def _coroutine_of(result: Any) -> Any:
    return Coroutine[Any, Any, result]


def shown_as(operation: Callable[..., Any], call: C, returns: Callable[[Any], Any] = _itself) -> C:
    """Return `call`, which `help` and `inspect` then show like the operation, without its first parameter."""
    shown: Any = update_wrapper(call, operation)
    shown.__wrapped__ = Shown(operation, returns)
    return call


def _list(cls: type) -> None:
    """Replace each operation that a class lists or inherits by a method."""
    for name in dir(cls):
        found = getattr(cls, name)
        if isinstance(listed := getattr(found, "listed", found), Method):
            setattr(cls, name, _method_of(cls, name, listed))


class QueuePart(Generic[E, W]):
    """Some methods of a queue, under an attribute of it: `queue.admin`, and what `tools_of` returns."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _list(cls)

    def __init__(self, queue: QueueBase[E]) -> None:
        self._queue, self._engine = queue, queue._engine  # noqa: SLF001  a part of it

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queue!r}>"


class Part(Generic[K]):
    """The attribute of a queue class that holds a part of its methods. They block or are awaited as those of the queue.

    Its value is made at each use: a queue that never uses it pays nothing, and no reference cycle keeps a queue alive.
    """

    def __init__(self, kind: type[K]) -> None:
        self._kind: Any = get_origin(kind) or kind
        self.__doc__ = kind.__doc__

    @overload
    def __get__(self, queue: None, owner: type) -> type[K]: ...
    @overload
    def __get__(self, queue: Any, owner: type) -> K: ...
    def __get__(self, queue: Any, owner: type) -> Any:
        kind = _awaited(self._kind) if issubclass(owner, Awaited) else self._kind
        return kind if queue is None else kind(queue)


@cache
def _awaited(kind: Any) -> Any:
    return type(kind.__name__, (kind, Awaited), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def tools_of(queue: Any) -> Any:
    """Return the methods of a queue that exports, imports and integrations call; they block or are awaited as its own.

    A discipline has the following or has not: `export_page(state, cursor)`, `import_entry`, `import_chunk` and
    `import_progress` for exports and imports, with `stored_states`; `register_consumer` and `renew_consumer`, which
    give a consumer's name to one run at a time; `backlogs_by_group`.
    """
    return queue._tools  # noqa: SLF001  no name of the queue, because neither workers nor operators need it


class QueueBase(Generic[E]):
    """Common base of the blocking and asyncio queues. A discipline lists its operations in a subclass.

    Besides its `Method` objects, that subclass defines the exchanges that heartbeats and closing run.
    """

    discipline: str
    capabilities: Capabilities
    _driver: Any
    _closed = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if issubclass(cls, Blocking | Awaited):  # the bare list stays one, for both of its subclasses
            _list(cls)

    def __init__(self, redis: Any, engine: E) -> None:
        self.name, self._engine = engine.name, engine
        self._recorder: Any = engine
        self._tally = engine.tally
        self._begin: Begin | None = None
        self._connect(redis)
        self._driver.beside = engine if isinstance(self._recorder, Following) else None
        if self._driver.beside is not None:
            self._driver.beside.client_name = name_of(getattr(self, "client", None))
        self._driver.layouts = engine.layouts

    def _connect(self, redis: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def _extend_all(engine: Any, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
        """Extend leases for the heartbeats; a discipline whose leases can be extended overrides this."""
        del engine
        yield from ()
        return [False] * len(leases)

    @staticmethod
    def _leave(engine: Any) -> Exchange[None]:
        """Run before closing. This default does nothing."""
        del engine
        yield from ()

    def _counted(self, result: Any, driver: Any = None) -> Any:
        """Flush the tally if a flush is due, with the queue's own driver unless another is given; return `result`."""
        raise NotImplementedError

    @property
    def _verbs(self) -> Any:
        """This queue, untyped, so that the operations its class adds can be called."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Shown:
    """Presents an operation to `help` and `inspect` as the method that runs it: without engine and Exchange.

    The signature is built on request, because building all of them would slow down the import. returns: maps the
    result type of the operation to the return type of the method.
    """

    def __init__(self, operation: Callable[..., Any], returns: Callable[[Any], Any]) -> None:
        self._operation, self._returns = operation, returns
        self.__doc__ = operation.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operation(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # without this, `inspect.getsource` would not find the operation
        return FunctionType

    @property
    def __signature__(self) -> Any:
        from inspect import Parameter, iscoroutinefunction, signature  # needed only on request
        from typing import get_args

        found = signature(self._operation, eval_str=True)
        given = list(found.parameters.values())[1:]
        me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        result = found.return_annotation
        if not iscoroutinefunction(self._operation):
            result = get_args(result)[-1]
            result = None if result is type(None) else result
        return found.replace(parameters=[me, *given], return_annotation=self._returns(result))
