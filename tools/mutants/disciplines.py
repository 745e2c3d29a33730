"""Mutants of what disciplines declare and refuse, and of their keys."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

DISCIPLINES = [
    Mutant(
        "ack is a release",
        "rmq_core/discipline/leased/methods.py",
        "    ack = Method(settling.ack)",
        "    ack = Method(settling.release)",
        "tests/redis/test_leased_settle.py::test_acked_messages_are_deleted",
    ),
    Mutant(
        "keys of a queue have no hash tag",
        "rmq_core/queue/keys.py",
        'fill(self, "rmq:{{{}}}:")',
        'fill(self, "rmq:{}:")',
        "tests/unit/test_keys.py::test_every_key_of_a_queue_has_its_name_as_hash_tag",
    ),
    Mutant(
        "a poll of many queues on a cluster goes out as one",
        "rmq_core/discipline/leased/operations/surveying.py",
        "size = 1 if apart else _AT_ONCE",
        "size = _AT_ONCE",
        "tests/redis/test_leased_survey.py::test_on_a_cluster_each_queue_is_read_on_its_own_node",
    ),
    Mutant(
        "a claim under a name is sent before its wait has ended",
        "rmq_core/discipline/leased/operations/claiming.py",
        'if block and request.mode == "named":',
        "if False:",
        "tests/redis/test_leased_wait.py::test_a_waiting_claim_with_an_id_claims_nothing_while_its_process_stands_still",
    ),
    Mutant(
        "reliable takes a delay",
        "rmq_core/discipline/reliable/config.py",
        "fenced=True, extend=True,",
        "fenced=True, extend=True, delay=True,",
        "tests/unit/reliable/test_config.py::test_the_capabilities_are_those_the_data_structure_allows",
    ),
    Mutant(
        "rotation takes leases over",
        "rmq_core/discipline/rotation/config.py",
        "Capabilities(auto_reclaim",
        "Capabilities(takeover=True, auto_reclaim",
        "tests/unit/rotation/test_config.py::test_the_capabilities_are_those_the_data_structure_allows",
    ),
    Mutant(
        "rotation declares a fence",
        "rmq_core/discipline/rotation/config.py",
        "Capabilities(auto_reclaim",
        "Capabilities(fenced=True, auto_reclaim",
        "tests/unit/rotation/test_config.py::test_the_capabilities_are_those_the_data_structure_allows",
    ),
    Mutant(
        "streams declare dead letters",
        "rmq_core/discipline/streams/config.py",
        "fenced=True, extend=True,",
        "fenced=True, extend=True, dead_letters=True,",
        "tests/redis/test_conformance.py::test_the_docs_page_states_what_each_discipline_declares_and_its_meaning",
    ),
    Mutant(
        "jobs declare deduplication",
        "rmq_core/discipline/jobs/config.py",
        "dedup=True, ",
        "",
        "tests/redis/test_conformance.py::test_the_docs_page_states_what_each_discipline_declares_and_its_meaning",
    ),
    Mutant(
        "leased declares no large leases",
        "rmq_core/discipline/leased/config.py",
        "large_leases=True, ",
        "",
        "tests/redis/test_conformance.py::test_the_docs_page_states_what_each_discipline_declares_and_its_meaning",
    ),
    Mutant(
        "reliable does not declare headers",
        "rmq_core/discipline/reliable/config.py",
        ", headers=True",
        "",
        "tests/unit/reliable/test_config.py::test_the_capabilities_are_those_the_data_structure_allows",
    ),
    Mutant(
        "a refusal of require() is not raised",
        "rmq_core/protocol.py",
        '            raise Unsupported(queue.discipline, f"{capability} (needed',
        '            Unsupported(queue.discipline, f"{capability} (needed',
        "tests/unit/test_protocol.py::test_a_component_refuses_a_queue_without_a_capability_that_it_needs",
    ),
]
