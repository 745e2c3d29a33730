"""`python -m rmq_spark.submit APP ARGS…`: pyspark's own spark-submit, with Java and this interpreter found for it.

The process becomes spark-submit: its pid, signals and exit status are those the caller sees.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from rmq_spark.runtime.java import spark_environment


def submit(arguments: Sequence[str]) -> None:
    """Become spark-submit with these arguments. Raises ConfigurationError where there is no Java."""
    home = Path(_find_spark_home())
    command = str(home / "bin" / "spark-submit")
    os.execve(command, [command, *arguments], os.environ | spark_environment() | {"SPARK_HOME": str(home)})  # noqa: S606


if __name__ == "__main__":
    submit(sys.argv[1:])
