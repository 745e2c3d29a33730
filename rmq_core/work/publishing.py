"""What publishers share: messages that name who published them, and payloads sorted by queue."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Exchange
from rmq_core.messages import NewMessage
from rmq_core.observe.middleware import Begin, Invocation, begin_with
from rmq_core.queue.keys import check_name

P = TypeVar("P")
Q = TypeVar("Q")
Publisher: TypeAlias = Callable[[], Mapping[str, str]]
"""Returns the headers that name the publisher; none if there is nobody to name."""
_LISTS = ("publish_many", "stage")


def publishing_as(queue: Q, publisher: Publisher) -> Q:
    """Return the queue; from now on, the messages that it publishes or stages carry the headers of the publisher.

    These replace headers of the same names, which may be copies of those of another message. `publisher` is called once
    for each call.
    """
    begin_with(queue, functools.partial(_named, publisher))
    return queue


def with_publisher(message: Any, publisher: Mapping[str, str]) -> Any:
    """Return a message with the publisher's headers if it has headers of its own, which replace those of the call."""
    if not isinstance(message, NewMessage) or message.headers is None:
        return message
    return message._replace(headers={**message.headers, **publisher})


def by_queue(payloads: Iterable[P], queue_of: Callable[[P], str]) -> dict[str, list[P]]:
    """Return payloads by the name of the queue that each belongs in, in their order.

    Reads all payloads. Raises ConfigurationError for a name that no queue can have; as nothing is published by then, a
    retry does not publish the payloads before it once more.
    """
    found: dict[str, list[P]] = {}
    for place, payload in enumerate(payloads):
        name = queue_of(payload)
        if name not in found:
            try:
                check_name("the name of its queue", name)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"payload {place} belongs in no queue, so none was published: {error}"
                ) from None
        found.setdefault(name, []).append(payload)
    return found


def _named(publisher: Publisher, begin: Begin, call: Invocation) -> Exchange[Any]:
    own = publisher() if call.verb == "publish" or call.verb in _LISTS else None
    if not own:
        return begin(call)
    args, kwargs = call.args, {**call.kwargs, "headers": {**(call.kwargs.get("headers") or {}), **own}}
    if call.verb in _LISTS:
        each = functools.partial(with_publisher, publisher=own)
        if args:
            args = (map(each, args[0]), *args[1:])
        elif "payloads" in kwargs:
            kwargs["payloads"] = map(each, kwargs["payloads"])
    return begin(call._replace(args=args, kwargs=kwargs))
