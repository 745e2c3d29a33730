from __future__ import annotations

import pytest

from tests.lanes import unit
from tests.servers import CLUSTERS, NAMES, parse_external
from tests.servers.cluster import MASTERS, SLOTS, slots_of
from tests.servers.debian import Offer, offers
from tests.servers.matrix import PACKAGES

# What `apt-cache madison` printed in November 2026.
MADISON = """\
redis-tools |  5:8.6.3-1 | http://mirror/debian experimental/main amd64 Packages
redis-tools |  5:8.0.6-3 | http://mirror/debian sid/main amd64 Packages
redis-tools | 5:8.0.2-3+deb13u3 | http://mirror/debian trixie/main amd64 Packages
redis-tools | 5:7.0.15-1~deb12u7 | http://mirror/debian bookworm/main amd64 Packages
"""
VALKEYS = """\
valkey-tools |    9.1.2-1 | http://mirror/debian sid/main amd64 Packages
valkey-tools | 8.1.1+dfsg1-3+deb13u3 | http://mirror/debian trixie/main amd64 Packages
"""


def test_custom_servers_are_split_correctly_although_urls_contain_commas() -> None:
    found = parse_external(
        "alone=redis://h:1/0, several=redis+cluster://h:1,i:2?tls=true,watched=sentinel://u:p@h:1,i:2/main,near=unix:///s"
    )
    assert found == {
        "alone": "redis://h:1/0",
        "several": "redis+cluster://h:1,i:2?tls=true",
        "watched": "sentinel://u:p@h:1,i:2/main",
        "near": "unix:///s",
    }
    assert parse_external("") == {}


def test_every_slot_of_a_cluster_has_one_master() -> None:
    assert [slot for number in range(MASTERS) for slot in slots_of(number)] == list(range(SLOTS))


def test_clusters_are_made_of_servers_of_the_matrix() -> None:
    assert set(CLUSTERS.values()) <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "printed", "version", "suite"),
    [
        ("7.0", MADISON, "5:7.0.15-1~deb12u7", "bookworm"),
        ("8.0", MADISON, "5:8.0.2-3+deb13u3", "trixie"),
        ("8.6", MADISON, "5:8.6.3-1", "experimental"),
        ("8.6", MADISON.replace("5:8.6.3-1", "6:8.12.1~rc2-1"), "6:8.12.1~rc2-1", "experimental"),
        ("8.6", MADISON.partition("\n")[2].replace("5:8.0.6-3", "5:10.0.0-1"), "5:10.0.0-1", "sid"),
        ("valkey", VALKEYS, "9.1.2-1", "sid"),
        ("valkey-8.1", VALKEYS, "8.1.1+dfsg1-3+deb13u3", "trixie"),
    ],
)
def test_a_stable_server_is_that_of_its_release_and_a_moving_one_the_newest(
    name: str, printed: str, version: str, suite: str
) -> None:
    assert PACKAGES[name].choose(offers(printed)) == Offer(version, suite)


@pytest.mark.parametrize(
    ("name", "printed", "message"),
    [
        (
            "8.6",
            MADISON.partition("\n")[2],
            r"8\.6 or later in any suite; there is 8\.0\.6 in sid, 8\.0\.2 in trixie",
        ),
        (
            "7.0",
            MADISON.rpartition("redis-tools")[0],
            r"7\.0 in bookworm; there is 8\.6\.3 in experimental, ",
        ),
        ("8.0", MADISON.replace("8.0.2-3+deb13u3", "8.2.1-1"), r"8\.0 in trixie; .* 8\.2\.1 in trixie"),
        ("valkey", "", "there is nothing"),
    ],
)
def test_a_server_that_is_gone_is_reported_with_what_each_suite_has_now(name: str, printed: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        PACKAGES[name].choose(offers(printed))


@pytest.mark.parametrize("name", NAMES)
def test_a_server_is_recognised_in_the_id_of_a_test_although_its_name_begins_with_that_of_another(name: str) -> None:
    assert unit(f"tests/redis/test_x.py::test_y[sync-{name}]") == f"redis/{name}"
