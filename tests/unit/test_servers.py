from __future__ import annotations

from tests.servers import CLUSTERS, NAMES, parse_external
from tests.servers.cluster import MASTERS, SLOTS, slots_of


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
