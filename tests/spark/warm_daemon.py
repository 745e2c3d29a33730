"""PySpark's daemon with what its workers need already imported: forking it costs less than importing that once more.

Tests name it as `spark.python.daemon.module`. A query starts several workers, to plan a read and to read.
"""

from __future__ import annotations

from importlib import import_module

from pyspark.daemon import manager

for name in ("pandas", "pyarrow", "rmq_spark"):
    import_module(name)

if __name__ == "__main__":
    manager()
