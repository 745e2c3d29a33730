"""PySpark's daemon with the modules that its workers need: a worker forked from it need not import them again.

Tests name it as `spark.python.daemon.module`. A query starts several workers: some plan a read, others read.
"""

from __future__ import annotations

from importlib import import_module

from pyspark.daemon import manager

for name in ("pandas", "pyarrow", "rmq_spark"):
    import_module(name)

if __name__ == "__main__":
    manager()
