"""Which combinations of server and façade a run tests: `--product=one|covering|full`.

Both façades share the code of the operations, drivers have their own tests, and most scripts do the same on every
server. So `covering`, which `make test` runs, runs each test on two servers instead of all: blocking on one, asyncio on
the next. Which two depends on the name of the test, so that every server gets a share of every folder. Conformance
tests show what each server and cluster supports. A test of a supported feature runs on all of them; a test of a refusal
runs on one, because a refused call reaches no server. Half of the tests in `tests/faults` run blocking only, the other
half asyncio only. `one` is blocking calls on the first server, `full` everything, also what is marked `nightly`. A test
asked for by its name runs in every combination.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import CLUSTERS, EMBEDDED, NAMES

WHERE = ("server", "place")
"""The parameters that name a server or a cluster."""
FLAVOURS = ("sync", "async")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register `--product`."""
    parser.addoption(
        "--product",
        choices=("one", "covering", "full"),
        default="covering",
        help="which servers and façades: sync on one, a share of them, or all",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the combinations that the product excludes."""
    product = "full" if config.getoption("faults") == "full" else config.getoption("product")
    if product == "full" or any("::" in asked for asked in config.args):
        return
    variants: dict[str, list[Variant]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("nightly"):
            continue
        variant = Variant(item)
        variants[variant.test].append(variant)
    choose = _one if product == "one" else _covering
    kept = {variant.item for test, group in variants.items() for variant in choose(test, group)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


class Variant:
    """A test item, its server and its façade, each None if it has none. `test` is the item's id without the two."""

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        named = [name for where in WHERE if (name := self.parameters.get(where)) in (*NAMES, *CLUSTERS, EMBEDDED)]
        self.place: str | None = named[0] if named else None
        function, _, parameters = item.nodeid.partition("[")
        parts = parameters.removesuffix("]").split("-")
        self.flavour = next((part for part in parts if part in FLAVOURS), None)
        about = "-".join(part for part in parameters.replace(self.place or "", "").split("-") if part != self.flavour)
        self.test = f"{function}[{about}"

    @property
    def everywhere(self) -> bool:
        """Return whether the test runs on every server and cluster, because it tests what a server supports."""
        asked = getattr(getattr(self.item, "obj", None), "everywhere", None)
        return bool(asked and asked(self.parameters))


def _one(_: str, group: list[Variant]) -> Iterator[Variant]:
    places = [variant.place for variant in group]
    for variant in group:
        if variant.flavour != "async" and variant.place == places[0]:
            yield variant


def _covering(test: str, group: list[Variant]) -> Iterator[Variant]:
    places = sorted({variant.place for variant in group if variant.place})
    home = zlib.crc32(test.encode())
    flavours = FLAVOURS[home % 2 :][:1] if test.startswith("tests/faults/") else FLAVOURS
    for variant in group:
        turn = home + (variant.flavour == "async")
        at_home = not places or variant.place == places[turn % len(places)]
        chosen = at_home and variant.flavour in (None, *flavours)
        if chosen or (variant.flavour == "sync" and variant.everywhere):
            yield variant
