"""The site: every page is in its navigation, every link has a target, every public name has its entry."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown.extensions.toc import slugify

import rmq_core
import rmq_dagster
import rmq_spark

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [
    *PAGES,
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md")),
]
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
ENTRY = re.compile(r"^(?::::|###) (\S+)$", re.MULTILINE)


def navigated(entries: Any) -> Iterator[str]:
    """Return the pages of a navigation; a page without a title is the first of its section."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [value] if isinstance(value, str) else navigated(value)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, and those it names itself."""
    text = page.read_text("utf-8")
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {slugify(re.sub(r"[`*]", "", title), "-") for title in titles} | set(re.findall(r'id="([^"]+)"', text))


def test_the_navigation_has_every_page_once() -> None:
    found = list(navigated(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert sorted(found) == [page.relative_to(DOCS).as_posix() for page in PAGES]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_has_an_existing_target(document: Path) -> None:
    dead = []
    for target, anchor in LINK.findall(CODE.sub("`", document.read_text("utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        page = (document.parent / target).resolve() if target else document
        if not page.exists() or (document in PAGES and DOCS not in page.parents):  # the site has nothing but docs
            dead.append(target)
        elif anchor and page.suffix == ".md" and anchor not in headings(page):
            dead.append(f"{target}#{anchor}")
    assert dead == []


def test_every_public_name_has_its_entry_in_the_reference() -> None:
    pages = [page.read_text("utf-8") for page in (DOCS / "reference" / "api").glob("*.md")]
    named = {name.rpartition(".")[2] for page in pages for name in ENTRY.findall(page)}
    public = {*rmq_core.__all__, *rmq_dagster.__all__, *rmq_spark.__all__}
    assert sorted(public - named) == []


def build(site: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    (options,) = re.findall(r"\bproperdocs (build .*)--config-file mkdocs.yml(.*)$", MAKEFILE, re.MULTILINE)
    command = [*"".join(options).split(), "--config-file", str(config), "--site-dir", str(site)]
    run = [sys.executable, "-m", "properdocs", *command]
    return subprocess.run(run, cwd=ROOT, check=False, capture_output=True, text=True)


def test_dead_links_end_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(
        "# Home\n\n[a](gone.md) [b](index.md#gone) [c](/index.md) [d](index.md#home)"
    )
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\nplugins: []\nhooks: []\nnav: [index.md]")
    built = build(tmp_path / "site", config)
    assert (built.returncode, built.stderr.count("contains a")) == (1, 3), built.stderr


@pytest.mark.nightly("architecture/test_site.py::test_every_link_has_an_existing_target")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    built = build(tmp_path / "site", ROOT / "mkdocs.yml")
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr
    queues = (tmp_path / "site" / "reference" / "api" / "queues" / "index.html").read_text("utf-8")
    assert all(f'id="rmq_core.LeasedQueue.{name}"' in queues for name in ("publish", "claim", "process"))
    assert 'id="rmq_core.leased.queue.LeasedAdmin.pause"' in queues
    integrations = (tmp_path / "site" / "reference" / "api" / "integrations" / "index.html").read_text("utf-8")
    assert "howto/operator:RedisQueueSensor" in integrations, "a link to the guide"
    assert not [markup for markup in (":param", "seealso", "ui_color") if markup in integrations]
