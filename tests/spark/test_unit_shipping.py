from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark import cloudpickle

from rmq_spark.runtime.shipping import packed, self_contained, self_contained_source
from rmq_spark.tables import appender

ROOT = Path(__file__).parents[2]
ELSEWHERE = """
import pickle, sys
try:
    import rmq_spark
except ModuleNotFoundError as missing:
    print(missing.name)
source = pickle.load(sys.stdin.buffer)({})
print([field.name for field in source.schema()][:2], source.name())
from rmq_core.exchange.loading import load
print(load("leased/read").name, ".zip" in sys.modules["rmq_core"].__file__)
"""
APPENDING = """
import pickle, sys
try:
    import rmq_spark
except ModuleNotFoundError as missing:
    print(missing.name)
append = pickle.load(sys.stdin.buffer)
try:
    append("no DataFrame", 0)
except Exception as error:
    print(type(error).__name__, type(error).__module__)
print(append.table)
"""


@pytest.fixture(scope="module")
def archive() -> bytes:
    return packed()


def test_the_archive_holds_every_module_and_script(archive: bytes) -> None:
    names = set(zipfile.ZipFile(io.BytesIO(archive)).namelist())
    for package in ("rmq_core", "rmq_spark", "pyspark_rmq"):
        for suffix in (".py", ".lua"):
            wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob(f"*{suffix}")}
            assert wanted <= names
    assert not any("__pycache__" in name for name in names)


def told_elsewhere(script: str, pickled: object, folder: Path) -> list[str]:
    """Return what a Python without the package prints, which gets the object pickled on its standard input."""
    path = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    told = subprocess.run(
        [sys.executable, "-S", "-c", script],
        input=cloudpickle.dumps(pickled),  # type: ignore[no-untyped-call]
        env={"PATH": os.defpath, "PYTHONPATH": path}, cwd=folder, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    return told.splitlines()


def test_the_class_works_in_a_python_without_the_package(archive: bytes, tmp_path: Path) -> None:
    told = told_elsewhere(ELSEWHERE, self_contained_source(archive), tmp_path)
    assert told == ["rmq_spark", "['message_id', 'payload'] rmq", "leased/read True"]


def test_an_appender_works_in_a_python_without_the_package(tmp_path: Path) -> None:
    told = told_elsewhere(APPENDING, appender("/a/table"), tmp_path)
    assert told == ["rmq_spark", "ConfigurationError rmq_core.errors", "/a/table"]


class Reader:
    """An object that a source creates."""

    def __init__(self, number: int) -> None:
        self.number = number


def test_an_object_created_by_a_source_is_equal_after_pickling() -> None:
    made = self_contained(Reader(7), b"")
    assert isinstance(made, Reader)
    arrived = pickle.loads(cloudpickle.dumps(made))  # type: ignore[no-untyped-call]
    assert (type(arrived), arrived.number) == (Reader, 7)
