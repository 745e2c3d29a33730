"""An environment that `venv-pack` packed, shipped by `spark-submit --archives` to a cluster that has no RMQ."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from rmq_core import LeasedQueue
from tests.spark import archived_driver
from tests.spark.cluster import standalone_cluster
from tests.wheel import ROOT, build_wheel, install_with_uv, run

PATIENCE_S = 900
NEEDED = ("pyarrow", "pandas", "setuptools", "venv-pack", "--constraints", str(ROOT / "constraints.txt"))
PYTHON = "./environment/bin/python"


def packed(folder: Path) -> Path:
    """Build the archive as the guide does."""
    python = install_with_uv(folder / "environment", [str(build_wheel(folder)), *NEEDED])
    archive = folder / "environment.tar.gz"
    run([str(Path(python).with_name("venv-pack")), "-p", str(folder / "environment"), "-o", str(archive)], folder)
    return archive


@pytest.mark.nightly("spark/test_unit_shipping.py::test_the_class_works_in_a_python_without_the_package")
def test_driver_and_executors_work_with_a_packed_environment(redis_url: str, tmp_path: Path) -> None:
    archive = packed(tmp_path)
    here = tmp_path / "driver"  # in client mode nothing unpacks the archive for the driver and the processes beside it
    with tarfile.open(archive) as content:
        content.extractall(here / "environment", filter="tar")
    with standalone_cluster(tmp_path) as (daemons, conf):
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={str(value).lower()}")]
        submit = [f"{_find_spark_home()}/bin/spark-submit", "--archives", f"{archive}#environment", *options]
        python = {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON, "PATH": os.defpath, "PYTHONPATH": ""}
        ran = subprocess.run(
            [*submit, archived_driver.__file__, redis_url], cwd=here, env=daemons.driver(**python),
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-5000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["driver"].startswith(str(here / "environment"))
    assert found["executor"].startswith(str(tmp_path))
    assert not found["executor"].startswith(str(here))
    assert "/environment/" in found["executor"]
    assert (found["batch"], found["stream"]) == (archived_driver.COUNT, archived_driver.COUNT)
    for name in ("work", "more"):
        with LeasedQueue(redis_url, name) as queue:
            assert sum(queue.stats()[:5]) == 0
