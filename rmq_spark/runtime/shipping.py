"""`format("rmq")` for Spark processes that cannot import this package: a class pickled by value carries the package.

The executors of a batch see files shipped by `--py-files` and `addArtifacts`. The executors of a stream see them only
on a classic session; the process that runs a stream's source never sees them, nor does the one in which a Connect
server runs the function of `foreachBatch`. Therefore the class, the readers and writers it makes, and the function of
`appender` carry an archive of the package. They unpack it when they are unpickled and the package is missing. Pickling
all of RMQ by value would not work: scripts are files, and some modules are imported late.
This module is pickled by value and must work alone until then, so it imports nothing of RMQ at its top. The
dependencies (redis, hiredis, tenacity, pyarrow) are not in the archive.
"""

from __future__ import annotations

import atexit
import io
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

PACKAGES = ("rmq_core", "rmq_spark", "pyspark_rmq")
SHIPPED = {".py", ".lua"}
T = TypeVar("T")


def _making(hook: str) -> Callable[..., Any]:
    """Return a method that calls this hook of RmqDataSource and adds the archive to the reader or writer it makes."""

    def make(self: SelfContainedSource, *arguments: Any, **named: Any) -> Any:
        return self_contained(getattr(self._source(), hook)(*arguments, **named), self.archive)

    return make


class SelfContainedSource(DataSource):
    """Stand in for RmqDataSource, which it creates after unpacking the archive."""

    archive, application = b"", ""
    reader, writer = _making("reader"), _making("writer")
    streamReader, streamWriter = _making("streamReader"), _making("streamWriter")

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "rmq"

    def schema(self) -> StructType | str:
        """Return the schema of RmqDataSource."""
        return self._source().schema()

    def _source(self) -> DataSource:
        make_importable(self.archive)
        from rmq_spark.data_source import RmqDataSource  # the archive comes first

        source = RmqDataSource(self.options)
        source.application = self.application
        return source


def self_contained(made: T, archive: bytes) -> T:
    """Return the same reader or writer, changed so that it can be unpickled where the package is missing."""
    kind = type(made)

    def reduced(self: Any) -> tuple[Any, ...]:
        return _with_archive(archive, kind, self.__getstate__())

    made.__class__ = type(kind.__name__, (kind,), {"__reduce__": reduced})
    return made


def reduced_with_package(made: object) -> tuple[Any, ...]:
    """Return a `__reduce__` value with which an object can be unpickled also where the package is missing."""
    _pickle_this_module_by_value()
    return _with_archive(packed(), type(made), made.__getstate__())


def _with_archive(archive: bytes, kind: type, state: Any) -> tuple[Any, ...]:
    return restored, (archive, cloudpickle.dumps((kind, state)))  # type: ignore[no-untyped-call]


def _pickle_this_module_by_value() -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def restored(archive: bytes, pickled: bytes) -> Any:
    """Return a copy of the reader, writer or function that was pickled; pickle calls this in the other process."""
    make_importable(archive)
    kind, state = cloudpickle.loads(pickled)
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def make_importable(archive: bytes) -> None:
    """Unpack the archive unless the package can be imported."""
    try:
        import rmq_spark.data_source  # noqa: F401  tests the import
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("rmq_core", "rmq_spark"):
            raise
        sys.path.append(unpacked(archive))


def unpacked(archive: bytes) -> str:
    """Write the archive to a folder that only this user can write to; return the file's path."""
    folder = tempfile.mkdtemp(prefix="rmq-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = Path(folder) / "rmq.zip"
    place.write_bytes(archive)
    return str(place)


def packed() -> bytes:
    """Return the sources of this package and of the core as a zip archive that Python can import from."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for name, file in _walk(package, files(package)):
                archive.writestr(name, file.read_bytes())
    return target.getvalue()


def self_contained_source(archive: bytes, application: str = "") -> type[DataSource]:
    """Return the class to register; it is pickled by value and contains the archive and the application's id."""
    _pickle_this_module_by_value()
    members: dict[str, Any] = {"archive": archive, "application": application, "__module__": __name__}
    return type("SelfContainedRmq", (SelfContainedSource,), members)


def _walk(name: str, place: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in place.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _walk(path, entry)
        elif Path(entry.name).suffix in SHIPPED:
            yield path, entry
