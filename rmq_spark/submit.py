"""`python -m rmq_spark.submit APP ARGS…`: run pyspark's own spark-submit with a suitable Java and this interpreter.

The process replaces itself by spark-submit, so the caller sees the pid, signals and exit status of spark-submit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from rmq_spark.runtime.java import spark_environment


def submit(arguments: Sequence[str]) -> None:
    """Replace this process by spark-submit with these arguments. Raises ConfigurationError when there is no Java."""
    home = Path(_find_spark_home())
    command = str(home / "bin" / "spark-submit")
    os.execve(command, [command, *arguments], os.environ | spark_environment() | {"SPARK_HOME": str(home)})


if __name__ == "__main__":
    submit(sys.argv[1:])
