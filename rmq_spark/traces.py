"""Hide traces of our own errors: Spark prints the whole trace of a Python hook, but users need only its last line.

A hook can hide the trace only with Spark's own switch SPARK_HIDE_TRACEBACK. A worker reads it when it reports the error
of a hook, and exits after that report. So it is set for our own errors, whose text says what to do. All other errors
keep their trace, and so do errors of a user's function, which runs in another worker.
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
            if spec is not None and spec.name.startswith("pyspark."):  # a hook's worker: a driver keeps running
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    return call
