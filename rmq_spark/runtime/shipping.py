"""`format("rmq")` for Spark processes that cannot import this package: a class pickled by value brings it along.

What `--py-files` and `addArtifacts` shipped is seen by the executors of a batch; by those of a stream only on a classic
session, and by the process that runs a stream's source on neither. So the class, and what it makes, carry an archive of
the package and unpack it where they are unpickled and the package is missing. This module imports nothing of RMQ at its
top, for pickled by value it has to work alone until then. The dependencies (redis, hiredis, tenacity, pyarrow) are not
in the archive.
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
    """The hook of RmqDataSource, of which what it makes carries the archive too."""

    def make(self: SelfContainedSource, *arguments: Any, **named: Any) -> Any:
        return self_contained(getattr(self._source(), hook)(*arguments, **named), self.archive)

    return make


class SelfContainedSource(DataSource):
    """Stands for RmqDataSource, which it makes once the archive is unpacked."""

    archive = b""
    reader, writer = _making("reader"), _making("writer")
    streamReader, streamWriter = _making("streamReader"), _making("streamWriter")  # noqa: N815  Spark's names

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "rmq"

    def schema(self) -> StructType | str:
        """What RmqDataSource says."""
        return self._source().schema()

    def _source(self) -> DataSource:
        make_importable(self.archive)
        from rmq_spark.data_source import RmqDataSource  # noqa: PLC0415  not before

        return RmqDataSource(self.options)


def self_contained(made: T, archive: bytes) -> T:
    """The same reader or writer, which can be unpickled where the package is missing."""
    kind = type(made)

    def reduced(self: Any) -> tuple[Any, ...]:
        return restored, (archive, cloudpickle.dumps((kind, self.__getstate__())))  # type: ignore[no-untyped-call]

    made.__class__ = type(kind.__name__, (kind,), {"__reduce__": reduced})
    return made


def restored(archive: bytes, pickled: bytes) -> Any:
    """What `self_contained` was given, in another process."""
    make_importable(archive)
    kind, state = cloudpickle.loads(pickled)
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def make_importable(archive: bytes) -> None:
    """Unpack the archive unless the package is here."""
    try:
        import rmq_spark.data_source  # noqa: F401, PLC0415  whether it is
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("rmq_core", "rmq_spark"):
            raise
        sys.path.append(unpacked(archive))


def unpacked(archive: bytes) -> str:
    """The path of a file with these bytes, in a folder that only this user can write to."""
    folder = tempfile.mkdtemp(prefix="rmq-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = Path(folder) / "rmq.zip"
    place.write_bytes(archive)
    return str(place)


def packed() -> bytes:
    """The sources of this package and of the core as a zip archive that Python can import from."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for name, file in _walk(package, files(package)):
                archive.writestr(name, file.read_bytes())
    return target.getvalue()


def self_contained_source(archive: bytes) -> type[DataSource]:
    """The class to register: pickled by value, with the archive in it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    members: dict[str, Any] = {"archive": archive, "__module__": __name__}
    return type("SelfContainedRmq", (SelfContainedSource,), members)


def _walk(name: str, place: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in place.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _walk(path, entry)
        elif Path(entry.name).suffix in SHIPPED:
            yield path, entry
