from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_core import embedded
from tests.servers import start_server
from tests.warm import Warm, warm

ROOT = Path(__file__).parents[2]
# A block that is a fragment or needs a cluster is marked by `<!-- not run: why -->` on the line before.
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A block that readers save as a file of their own says so: `<!-- file: worker.py -->`; other blocks start it.
FILE = re.compile(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE_URL = "redis://localhost:6379/0"


def code_of(path: Path) -> str:
    """Return the Python blocks of a document in reading order: later ones may use what earlier ones defined."""
    text = FILE.sub("", path.read_text("utf-8"))
    return "\n".join(code for skipped, code in BLOCK.findall(text) if not skipped)


DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name == "README.md" or code_of(path)
}
LONG = {
    "docs/tutorials/spark.md": pytest.mark.nightly(
        "spark/test_recipes.py::test_recipes_have_their_effects_once_on_a_local_spark"
    )
}
"""Documents that start Spark several times."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = start_server("7.0")
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def imported() -> Iterator[Warm]:
    with warm("redis.asyncio", "rmq_core.exchange.sync") as process:
        yield process


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for lock in tmp_path.rglob(embedded.LIFE):
        embedded.stop(lock.parent)


@pytest.mark.parametrize(
    "document", [pytest.param(path, id=name, marks=LONG.get(name, ())) for name, path in DOCUMENTS.items()]
)
def test_the_code_of_a_document_runs(document: Path, url: str, folder: Path, imported: Warm) -> None:
    code = code_of(document)
    assert code, f"{document} shows no code that runs"
    for name, text in FILE.findall(document.read_text("utf-8")):
        (folder / name).write_text(text.replace(EXAMPLE_URL, url))
    script = folder / "document.py"
    script.write_text(code.replace(EXAMPLE_URL, url))
    result = imported.run(script)
    assert result.returncode == 0, result.stderr
