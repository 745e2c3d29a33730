"""What operators do with a StreamQueue: `queue.admin`."""

from __future__ import annotations

from rmq_core.discipline.streams.engine import StreamEngine
from rmq_core.discipline.streams.operations import inspecting
from rmq_core.queue.base import Awaited, Blocking, Method
from rmq_core.queue.verbs import Admin


class StreamAdminMethods(Admin[StreamEngine]):
    """The methods of StreamAdmin and AsyncStreamAdmin."""

    peek = Method(inspecting.peek)
    purge = Method(inspecting.purge)


class StreamAdmin(StreamAdminMethods, Blocking):
    """What operators do with a StreamQueue: `queue.admin`."""


class AsyncStreamAdmin(StreamAdminMethods, Awaited):
    """What operators do with an asyncio StreamQueue: `queue.admin`."""
