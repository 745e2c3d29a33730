"""Which combinations of server and façade a run tests: `--product=one|covering|full`.

Both façades share the code of the operations, drivers have their own tests, and most scripts do the same on every
server. So `covering`, which `make test` runs, runs each test once: on one server, blocking or asyncio. Which, depends
on the name of the test, so that every server and façade gets a share of every folder. Only what is marked `everywhere`
runs on the oldest server, the newest ones and a cluster, because it tests what servers support; and unit tests, which
need no server, run in both façades. `one` is blocking calls on the first server, `full` everything, also what is marked
`nightly`. A test asked for by its name runs in every combination.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

from tests.servers import CLUSTERS, EMBEDDED, NAMES, find_server, parse_external

FLAVOURS = ("sync", "async")
BETWEEN = ("7.0", "8.0", "valkey-8.1", "7.0-cluster")
"""Servers and clusters that tests marked `everywhere` leave out: only the oldest and the newest remain."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register `--product` and `--servers`."""
    parser.addoption(
        "--product",
        choices=("one", "covering", "full"),
        default="covering",
        help="which servers and façades: sync on one, a share of them, or all",
    )
    parser.addoption("--servers", default="", help="comma-separated names of the servers to test, default all")


def pytest_report_header(config: pytest.Config) -> str:
    """Report which servers and clusters this run covers."""
    return f"servers: {', '.join(place_names(config))}; faults: {config.getoption('faults')}"


def place_names(config: pytest.Config) -> list[str]:
    """Return the servers and clusters of this run: those of RMQ_TEST_SERVERS or all of ours, limited by `--servers`."""
    known = list(parse_external() or (*NAMES, *CLUSTERS))
    chosen = [name for name in config.getoption("servers").split(",") if name] or known
    if unknown := set(chosen) - {*known, EMBEDDED}:
        message = f"--servers: no {', '.join(sorted(unknown))} among {', '.join(known)}"
        raise pytest.UsageError(message)
    return chosen


def server_names(config: pytest.Config) -> list[str]:
    """Return the standalone servers of this run."""
    external = parse_external()
    alone = {name for name, url in external.items() if url.startswith(("redis:", "rediss:", "unix:"))}
    return [name for name in place_names(config) if name in (alone or {*NAMES, EMBEDDED})]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on each server of the product when it requests one, directly or through another fixture."""
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", places(metafunc, server_names(metafunc.config)), indirect=True, scope="session")


@pytest.fixture(scope="session")
def any_server_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """One server for tests whose subject is not Redis: 7.0 unless `--servers` leaves it out."""
    names = server_names(pytestconfig)
    with find_server("7.0" if "7.0" in names or not names else names[0]) as server:
        yield server.url


def product_of(config: pytest.Config) -> str:
    """Return the product of a run."""
    named = any("::" in asked for asked in config.args)
    return "full" if named or config.getoption("faults") == "full" else str(config.getoption("product"))


def places(metafunc: pytest.Metafunc, names: Sequence[str]) -> Sequence[str]:
    """Return those of the servers and clusters on which a test runs. The others are left out before tests are made."""
    product = product_of(metafunc.config)
    if product == "full" or not names:
        return names
    if product == "one":
        return names[:1]
    if metafunc.definition.get_closest_marker("everywhere"):
        return [name for name in names if name not in BETWEEN] or names
    return [names[zlib.crc32(metafunc.definition.nodeid.encode()) % len(names)]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the façades that the product excludes, and what only a full run runs."""
    product = product_of(config)
    if product == "full":
        return
    variants: dict[str, list[tuple[str, pytest.Item]]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("nightly"):
            test, flavour = _split(item.nodeid)
            variants[test].append((flavour, item))
    kept = {item for test, made in variants.items() for item in _chosen(product, test, made)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _split(nodeid: str) -> tuple[str, str]:
    """Return the id of a test without its façade, and the façade, empty if it has none."""
    function, _, parameters = nodeid.partition("[")
    parts = parameters.removesuffix("]").split("-")
    flavour = next((part for part in parts if part in FLAVOURS), "")
    return f"{function}[{'-'.join(part for part in parts if part != flavour)}", flavour


def _chosen(product: str, test: str, made: list[tuple[str, pytest.Item]]) -> Iterator[pytest.Item]:
    left_out = "async"
    if product == "covering":
        both = "/test_unit_" not in test and {flavour for flavour, _ in made} >= set(FLAVOURS)
        left_out = FLAVOURS[zlib.crc32(test.encode()) % 2] if both else ""
    return (item for flavour, item in made if not flavour or flavour != left_out)
