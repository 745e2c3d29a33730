"""What a failure shows first: Spark prints the trace of a Python hook, of which only the last line is about the user.

A hook can change that by Spark's own switch SPARK_HIDE_TRACEBACK alone: a worker reads it when it reports what a hook
raised, and ends with that report. So it is set for our own errors, whose text says what to do. Any other error, and any
of a user's function, which runs in another worker, keeps its trace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rmq_core import RedisMessageQueueError

P = ParamSpec("P")
T = TypeVar("T")


def without_trace(hook: Callable[P, T]) -> Callable[P, T]:
    """Wrap a hook so that Spark shows the text of our own errors without a trace."""

    @wraps(hook)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return hook(*args, **kwargs)
        except RedisMessageQueueError:
            spec = getattr(sys.modules["__main__"], "__spec__", None)
            if spec is not None and spec.name.startswith("pyspark."):  # started for hooks: a driver goes on
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return call
