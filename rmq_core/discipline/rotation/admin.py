"""What operators do with a RotationQueue: `queue.admin`."""

from __future__ import annotations

from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.operations import inspecting
from rmq_core.queue.base import Awaited, Blocking, Method
from rmq_core.queue.verbs import Admin


class RotationAdminMethods(Admin[RotationEngine]):
    """The methods of RotationAdmin and AsyncRotationAdmin."""

    peek = Method(inspecting.peek)
    purge = Method(inspecting.purge)


class RotationAdmin(RotationAdminMethods, Blocking):
    """What operators do with a RotationQueue: `queue.admin`."""


class AsyncRotationAdmin(RotationAdminMethods, Awaited):
    """What operators do with an asyncio RotationQueue: `queue.admin`."""
