"""What operators do with a ReliableQueue: `queue.admin`."""

from __future__ import annotations

from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.operations import inspecting, managing
from rmq_core.queue.base import Awaited, Blocking, Method
from rmq_core.queue.verbs import Admin


class ReliableAdminMethods(Admin[ReliableEngine]):
    """The methods of ReliableAdmin and AsyncReliableAdmin."""

    peek = Method(inspecting.peek)
    dead_letters = Method(inspecting.dead_letters)
    redrive = Method(managing.redrive)
    purge = Method(managing.purge)


class ReliableAdmin(ReliableAdminMethods, Blocking):
    """What operators do with a ReliableQueue: `queue.admin`."""


class AsyncReliableAdmin(ReliableAdminMethods, Awaited):
    """What operators do with an asyncio ReliableQueue: `queue.admin`."""
