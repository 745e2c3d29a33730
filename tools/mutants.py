"""Mutation tests: `python -m tools.mutants [number ...]` breaks RMQ in one place at a time, and a test has to fail.

The places are those where a wrong behaviour loses, duplicates or steals work: drivers, resends, routing, fences,
refusals. Formats need none, because golden bytes hold them. A place is an expression or a statement of Python, compared
without its layout, or a sequence of words of Lua, compared without spaces: it is in its file once. The number of a
mutant is its index in MUTANTS.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TREE = ROOT / "build" / "mutants"
OPTIONS = ["-q", "--maxfail=1", "--tb=no", "--hypothesis-profile=ci"]
HANGS_S = 900
FAILED = 1  # pytest's exit code


class Mutant(NamedTuple):
    """A change to one file: `old` becomes `new`. `killer`, `file::test`, then fails; the tests of ring 2 contain it."""

    name: str
    file: str
    old: str
    new: str
    killer: str


DRIVERS, FRAMES = "tests/core/exchange/test_unit_drivers.py", "tests/core/exchange/test_unit_frames.py"
CLUSTERS, REPLAY = "tests/core/exchange/test_unit_clusters.py", "tests/core/leased/test_replay.py"
SETTLE, CLAIM = "tests/core/leased/test_settling.py", "tests/core/leased/test_claiming.py"
RESENT = f"{DRIVERS}::test_a_call_whose_reply_was_lost_is_resent_unchanged"
SLOT = f"{CLUSTERS}::test_a_call_goes_to_the_node_that_has_the_slot_of_its_queue"
MOVED = f"{CLUSTERS}::test_a_call_whose_queue_has_moved_is_sent_again_to_its_new_node"
WAITS = f"{FRAMES}::test_a_call_is_resent_when_the_server_cannot_answer_now"
ATTACKS = "tests/console/serve/test_attacks.py"
TABLES = "tests/spark/test_unit_tables.py"
STORED = "tests/core/leased/test_settings.py"
EXPIRY = "tests/core/leased/test_expiry.py"
SHARDS = "tests/faults/test_shards_protocol.py"

MUTANTS = (
    Mutant(
        "async driver never resends", "rmq_core/exchange/aio.py", "patience.once or hopeless(error)", "True", RESENT
    ),
    Mutant(
        "sync driver never resends", "rmq_core/exchange/sync.py", "patience.once or hopeless(error)", "True", RESENT
    ),
    Mutant(
        "async driver keeps the connection of a cancelled call",
        "rmq_core/exchange/aio.py",
        "await connection.disconnect(nowait=True)",
        "pass",
        "tests/core/exchange/test_unit_patience.py::test_a_cancellation_by_the_caller_is_raised_as_a_cancellation",
    ),
    Mutant(
        "async driver resends the wait too",
        "rmq_core/exchange/aio.py",
        "retrying(send, again)",
        "retrying(send, first)",
        f"{DRIVERS}::test_a_completed_wait_is_not_repeated_in_a_resend",
    ),
    Mutant(
        "async driver gives up on NOSCRIPT",
        "rmq_core/exchange/aio.py",
        "unknown_script(replies)",
        "False",
        f"{DRIVERS}::test_a_script_the_server_does_not_know_is_sent_whole_in_the_same_slot",
    ),
    Mutant(
        "async driver uses connections of another loop",
        "rmq_core/exchange/aio_pools.py",
        "self.loop is asyncio.get_running_loop()",
        "True",
        f"{DRIVERS}::test_a_connection_is_not_used_in_another_event_loop_than_its_own",
    ),
    Mutant(
        "async driver has no timeout",
        "rmq_core/exchange/aio_pools.py",
        "self.timeout_s is not None",
        "False",
        "tests/core/exchange/test_unit_patience.py::test_a_missing_reply_closes_the_connection_and_the_call_is_resent",
    ),
    Mutant(
        "async heartbeat extends nothing",
        "rmq_core/aio.py",
        "await queue.extend_all([heartbeat.asked() for heartbeat in due])",
        "[True for heartbeat in due]",
        "tests/core/test_unit_heartbeats.py::test_a_beat_on_asyncio_treats_answers_as_the_thread_does",
    ),
    Mutant(
        "async driver on a cluster sends to any node",
        "rmq_core/exchange/aio.py",
        "self.client.get_node_from_key(self._key.decode())",
        "self.client.get_random_node()",
        SLOT,
    ),
    Mutant(
        "sync driver on a cluster sends to the default node",
        "rmq_core/exchange/sync.py",
        "self.client.nodes_manager.get_node_from_slot(self.client.keyslot(self._key))",
        "self.client.get_default_node()",
        SLOT,
    ),
    Mutant(
        "async driver does not refresh the nodes of the cluster",
        "rmq_core/exchange/aio.py",
        "await cancellable(self.client.nodes_manager.initialize(**asked_last(self._asked)))",
        "pass",
        MOVED,
    ),
    Mutant(
        "sync driver does not refresh the nodes of the cluster",
        "rmq_core/exchange/sync.py",
        "self.client.nodes_manager.initialize(**asked_last(self._asked))",
        "pass",
        MOVED,
    ),
    Mutant(
        "a script that changes data is executed by the node to which its slot is moving",
        "rmq_core/exchange/frames.py",
        "(frame and frame.slot)",
        "False",
        f"{CLUSTERS}::test_a_script_that_changes_data_waits_for_the_end_of_the_move",
    ),
    Mutant(
        "a slot that has moved is taken for one that is moving",
        "rmq_core/exchange/frames.py",
        "isinstance(reply, errors.AskError) and not isinstance(reply, errors.MovedError)",
        "isinstance(reply, errors.AskError)",
        MOVED,
    ),
    Mutant(
        "sync driver in a forked child uses the parent's connections",
        "rmq_core/exchange/pools.py",
        "self.pid != process.id",
        "False",
        "tests/core/leased/test_clients.py::test_a_forked_child_and_its_parent_do_not_get_in_each_others_way",
    ),
    Mutant(
        "a slot's number does not grow",
        "rmq_core/exchange/scripts.py",
        "slot.seq += 1",
        "slot.seq = 1",
        "tests/core/exchange/test_unit_call_slots.py::test_numbers_of_a_slot_only_grow",
    ),
    Mutant(
        "a forked child uses its parent's slots",
        "rmq_core/exchange/scripts.py",
        "own.pid != process.id",
        "False",
        "tests/core/exchange/test_unit_call_slots.py::test_a_forked_child_has_its_own_slots",
    ),
    Mutant(
        "chained chunks do not name the previous chunk",
        "rmq_core/exchange/frames.py",
        "isinstance(want, Chain)",
        "False",
        f"{FRAMES}::test_a_chained_call_ends_with_the_slot_and_number_of_its_predecessor",
    ),
    Mutant(
        "READONLY as Redis 6.2 wraps it is final",
        "rmq_core/exchange/frames.py",
        "_ON_REPLICA.search(text)",
        "False",
        WAITS,
    ),
    Mutant("a fail-over's UNBLOCKED is final", "rmq_core/exchange/frames.py", "'UNBLOCKED'", "'LOADING'", WAITS),
    Mutant(
        "the once driver tries again",
        "rmq_core/exchange/once.py",
        "OncePublicDriver._persist",
        "SyncDriver._persist",
        "tests/core/exchange/test_unit_once.py::test_a_request_whose_connection_is_lost_is_sent_once",
    ),
    Mutant(
        "keys of a queue have no hash tag",
        "rmq_core/kernel/keys.py",
        "f'{{{name}}}'",
        "name",
        "tests/core/kernel/test_unit_keys.py::test_every_key_of_a_queue_has_its_name_as_hash_tag",
    ),
    Mutant(
        "a poll of many queues on a cluster goes out as one",
        "rmq_core/leased/surveying.py",
        "1 if apart else _AT_ONCE",
        "_AT_ONCE",
        "tests/core/leased/test_surveying.py::test_on_a_cluster_each_queue_is_read_on_its_own_node",
    ),
    Mutant(
        "a claim under a name is sent before its wait has ended",
        "rmq_core/leased/claiming.py",
        "block and request.mode == 'named'",
        "False",
        "tests/core/leased/test_waiting.py::test_a_waiting_claim_with_an_id_claims_nothing_while_its_process_stands_still",
    ),
    Mutant(
        "a component takes a queue that cannot do what it needs",
        "rmq_core/protocol.py",
        "getattr(queue.capabilities, capability)",
        "True",
        "tests/core/test_unit_protocol.py::test_a_component_refuses_a_queue_without_a_capability_that_it_needs",
    ),
    Mutant(
        "a request older than the last one of its slot is executed",
        "rmq_core/kernel/include/replay.lua",
        "if last > mine then return 'superseded' end",
        "if last > mine then return nil end",
        "tests/faults/test_reliable_lost_replies.py::test_a_message_moved_by_a_late_blmove_goes_to_the_next_claim_of_its_worker",
    ),
    Mutant(
        "a resend is executed again",
        "rmq_core/kernel/include/replay.lua",
        "if last < mine then",
        "if last <= mine then",
        f"{REPLAY}::test_an_operation_whose_reply_was_lost_happens_once_and_returns_the_same",
    ),
    Mutant(
        "a refusal is not remembered",
        "rmq_core/kernel/include/replay.lua",
        "return remember(reply)",
        "return reply",
        "tests/faults/test_late_requests.py::test_a_late_request_has_no_effect_that_its_caller_was_told_did_not_happen",
    ),
    Mutant(
        "the token is compared by its fence alone",
        "rmq_core/leased/include/head.lua",
        "head.token == token then",
        "string.match(head.token, '^%d+') == string.match(token, '^%d+') then",
        "tests/faults/test_failover.py::test_a_token_from_before_the_failover_is_invalid_when_its_number_is_reused",
    ),
    Mutant(
        "a takeover keeps the old token",
        "rmq_core/leased/include/takeover.lua",
        "head.token = redis.call('INCRBY', k.fence, 2) .. mark .. o.nonce",
        "",
        f"{CLAIM}::test_claiming_an_id_again_takes_its_messages_over_and_fences_the_former_holder",
    ),
    Mutant(
        "a takeover counts no delivery",
        "rmq_core/leased/include/takeover.lua",
        "head.takeovers = head.takeovers + 1",
        "",
        f"{CLAIM}::test_a_crash_loop_on_one_id_ends_in_the_dead_letters_and_spares_the_others",
    ),
    Mutant(
        "a finished lease stays among the leases",
        "rmq_core/leased/include/finish.lua",
        "redis.call('ZREM', k.leases, k.id)",
        "",
        f"{SETTLE}::test_settling_the_last_message_ends_the_lease_and_leaves_the_record",
    ),
    Mutant(
        "requeued messages go to the end",
        "rmq_core/leased/include/front.lua",
        "redis.call('LPUSH', keys.ready,",
        "redis.call('RPUSH', keys.ready,",
        f"{SETTLE}::test_a_nacked_message_is_first_again_with_its_failure_in_its_history",
    ),
    Mutant(
        "settled messages are requeued too",
        "rmq_core/leased/include/give_back.lua",
        "not is_settled(bits, first, index)",
        "true",
        f"{SETTLE}::test_releasing_the_rest_of_a_lease_excludes_what_was_settled",
    ),
    Mutant(
        "a message dies one failure late",
        "rmq_core/leased/include/give_back.lua",
        "made.shared >= max",
        "made.shared > max",
        f"{SETTLE}::test_a_message_that_fails_too_often_becomes_a_dead_letter",
    ),
    Mutant(
        "publishing wakes no waiter",
        "rmq_core/kernel/include/notify.lua",
        "redis.call('ZCOUNT', waiters, now, '+inf') > seen.tokens",
        "false",
        "tests/core/leased/test_waiting.py::test_only_an_earlier_due_time_wakes_the_waiting_claim_that_holds_the_timer",
    ),
    Mutant(
        "jobs: on plain servers, acked jobs stay on the stream",
        "rmq_core/kernel/include/jobs_entry.lua",
        "redis.call('XDEL', ready, unpack(ids))",
        "",
        "tests/core/jobs/test_leases.py::test_a_claim_takes_jobs_off_the_stream_and_holds_them",
    ),
    Mutant(
        "a full queue accepts a chunk of many messages",
        "rmq_core/leased/accept.lua",
        "max_ready > 0 and length + held > max_ready",
        "false",
        "tests/core/leased/test_overflow.py::test_a_chunk_of_many_messages_that_does_not_fit_is_refused_whole",
    ),
    Mutant(
        "jobs: newer servers deduplicate nothing",
        "rmq_core/jobs/prepare.lua",
        "return 'native'",
        "return 'plain'",
        "tests/core/jobs/test_server.py::test_features_of_a_newer_server_are_used",
    ),
    Mutant(
        "the role view may change",
        "rmq_console/serve/access.py",
        "('numbers', 'server', 'messages')",
        "('numbers', 'server', 'messages', 'change')",
        f"{ATTACKS}::test_a_role_may_do_what_it_names_and_nothing_else",
    ),
    Mutant(
        "any peer may name a user",
        "rmq_console/serve/access.py",
        "self._proxies.include(request.state.peer)",
        "request.state.peer",
        f"{ATTACKS}::test_are_not_believed_from_another_address",
    ),
    Mutant(
        "a foreign page may send a change",
        "rmq_console/host.py",
        "foreign or x_rmq_request is None",
        "x_rmq_request is None",
        "tests/console/test_rights.py::test_a_foreign_page_can_neither_change_nor_search",
    ),
    Mutant(
        "a password in place of its reference is handed over",
        "rmq_core/orchestrate/handover.py",
        "None if reference == given.get(name) else reference",
        "reference",
        "tests/core/orchestrate/test_unit_handover_transports.py::test_a_password_that_looks_like_a_reference_is_refused_and_not_shown",
    ),
    Mutant(
        "a finished batch of a stream is not recorded before its ack",
        "rmq_spark/stream/batch_leases.py",
        "self._member.finish(seq)",
        "self._member.check()",
        "tests/core/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and spark_stream",
    ),
    Mutant(
        "Spark 4.0: a batch that was only claimed is acked",
        "rmq_spark/stream/spark_4_0.py",
        "self._end == begin",
        "True",
        "tests/spark/test_stream_spark_4_0.py::test_a_batch_that_is_asked_for_twice_before_it_is_planned_is_not_acked",
    ),
    Mutant(
        "a commit whose answer was lost counts as failed",
        "rmq_spark/tables/log.py",
        "if log.remembers(names): return",
        "pass",
        f"{TABLES}::test_a_batch_is_in_doubt_from_its_commit_until_the_log_says_it_is_not_there",
    ),
    Mutant(
        "a block that fails after its commit nacks",
        "rmq_spark/tables/appending.py",
        "batch.verdicts.keep = keep",
        "batch.verdicts.keep = False",
        "tests/spark/test_append_once.py::test_a_block_that_fails_after_its_commit_keeps_the_lease_although_its_policy_nacks",
    ),
    Mutant(
        "a step acks what no driver adopted",
        "rmq_dagster/runs/submitting.py",
        "not ack_unadopted",
        "ack_unadopted",
        "tests/dagster/test_submitted.py::test_a_driver_that_never_adopts_is_no_success",
    ),
    Mutant(
        "a reclaim counts by the program's own settings",
        "rmq_core/leased/reclaiming.py",
        "yield from fresh(engine)",
        "pass",
        f"{STORED}::test_a_reading_of_many_queues_reclaims_with_what_each_of_them_stores",
    ),
    Mutant(
        "a claim hands out messages while more have expired than a script moves",
        "rmq_core/leased/grouped/ready.lua",
        "if more > 0 or unsure or is_unsettled_before() then",
        "if unsure or is_unsettled_before() then",
        f"{EXPIRY}::test_many_expired_messages_before_one_that_is_not_block_nothing",
    ),
    Mutant(
        "a claim of one message hands out one that has expired",
        "rmq_core/leased/grouped/hold_quickly.lua",
        "redis.call('ZCOUNT', expiring, '-inf', now) > 0) then",
        "false) then",
        f"{EXPIRY}::test_random_calls_hand_out_nothing_expired_and_state_each_death_once",
    ),
    Mutant(
        "a redriven message expires again",
        "rmq_core/leased/include/absolve.lua",
        "timeless(body)",
        "body",
        f"{EXPIRY}::test_what_an_operator_redrives_does_not_expire_again",
    ),
    Mutant(
        "what is read beside a call is taken for its reply",
        "rmq_core/exchange/frames.py",
        "self.beside.take(replies.pop())",
        "self.beside.take(replies[-1])",
        f"{STORED}::test_a_waiting_claim_follows_what_was_changed_while_it_waited",
    ),
    Mutant(
        "operators who change settings at once overwrite each other",
        "rmq_core/kernel/configure.lua",
        "if (redis.call('GET', settings) or '') ~= before then",
        "if false then",
        f"{STORED}::test_operators_who_change_different_settings_at_once_change_both",
    ),
    Mutant(
        "a part is taken over by a takeover that a later one has replaced",
        "rmq_core/leased/include/takeover.lua",
        "if is_outdated(head.token, o.nonce) then",
        "if false then",
        f"{SHARDS}::test_a_takeover_that_comes_too_late_takes_no_part",
    ),
    Mutant(
        "a takeover leaves the token of the lease",
        "rmq_core/leased/include/takeover.lua",
        "head.token = redis.call('INCRBY', k.fence, 2) .. mark .. o.nonce",
        "",
        f"{SHARDS}::test_an_ack_that_comes_while_the_lease_is_taken_back_acks_nothing",
    ),
    Mutant(
        "a part that was taken over later is reclaimed",
        "rmq_core/leased/reclaim.lua",
        "if generation and tonumber",
        "if false and tonumber",
        f"{SHARDS}::test_a_part_that_was_taken_over_is_not_reclaimed",
    ),
    Mutant(
        "an id is opened twice",
        "rmq_core/leased/anchor.lua",
        "if redis.call('EXISTS', lease) == 1 then",
        "if false then",
        f"{SHARDS}::test_two_clients_open_an_id_once",
    ),
    Mutant(
        "an id is opened while parts of its former lease are not acked",
        "rmq_core/leased/anchor.lua",
        "if redis.call('EXISTS', parts) == 1 then",
        "if false then",
        f"{SHARDS}::test_the_record_of_a_later_ack_stays",
    ),
    Mutant(
        "an ack of parts leaves no record",
        "rmq_core/leased/decide.lua",
        "redis.call('SET', parts, listed)",
        "",
        f"{SHARDS}::test_an_ack_that_is_decided_is_finished_by_whoever_meets_it",
    ),
    Mutant(
        "the record of a later ack is deleted",
        "rmq_core/leased/finished.lua",
        "if (redis.call('GET', parts) or '') ~= listed then",
        "if false then",
        f"{SHARDS}::test_the_record_of_a_later_ack_stays",
    ),
    Mutant(
        "a shard takes messages of an older map",
        "rmq_core/leased/sharded/in_map.lua",
        "redis.call('GET', epoch) ~= known_epoch",
        "false",
        f"{SHARDS}::test_a_key_is_taken_once_while_only_some_shards_know_a_new_map",
    ),
    Mutant(
        "keys are published by a map that not all shards know",
        "rmq_core/leased/shards/publishing.py",
        "not shards.map.settled",
        "False",
        f"{SHARDS}::test_a_key_is_taken_once_while_only_some_shards_know_a_new_map",
    ),
    Mutant(
        "an ack is finished by an older map",
        "rmq_core/leased/shards/reclaiming.py",
        "not parts.keys() <= shards.engines.keys()",
        "False",
        f"{SHARDS}::test_an_ack_is_finished_in_shards_that_its_finisher_has_not_known",
    ),
    Mutant(
        "a part is released though its ack is decided",
        "rmq_core/leased/shards/reclaiming.py",
        'f"{engine.keys.shard}={token}" in text_of(decided).split(" ")',
        "False",
        f"{SHARDS}::test_an_ack_that_is_decided_is_finished_by_whoever_meets_it",
    ),
    Mutant(
        "the record of an ack goes though a shard was away",
        "rmq_core/leased/shards/reclaiming.py",
        "any(isinstance(each, Exception) for each in found.values())",
        "False",
        f"{SHARDS}::test_a_part_whose_shard_is_away_is_acked_later",
    ),
    Mutant(
        "a part whose deadline has passed is released while its lease lives",
        "rmq_core/leased/shards/reclaiming.py",
        "lives is not None",
        "False",
        f"{SHARDS}::test_parts_whose_deadline_has_passed_wait_while_their_lease_lives",
    ),
    Mutant(
        "shards forget keys when they are empty",
        "rmq_core/leased/shards/resharding.py",
        "name in remembered or counted[name]",
        "counted[name]",
        f"{SHARDS}::test_shards_that_are_empty_remember_their_keys",
    ),
)


def mutated(mutant: Mutant, source: bytes) -> bytes:
    """Return the source with `old` replaced. Raises ValueError if it is not there exactly once."""
    places = (_in_python if mutant.file.endswith(".py") else _in_lua)(source, mutant.old)
    if len(places) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has this {len(places)} times: {mutant.old}")
    ((start, end),) = places
    return source[:start] + mutant.new.encode() + source[end:]


def _in_python(source: bytes, old: str) -> list[tuple[int, int]]:
    (wanted,) = ast.parse(old).body
    if isinstance(wanted, ast.Expr):
        wanted = wanted.value
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [
        (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)
        for node in ast.walk(ast.parse(source))
        if type(node) is type(wanted) and ast.unparse(node) == ast.unparse(wanted)
    ]


def _in_lua(source: bytes, old: str) -> list[tuple[int, int]]:
    words = re.findall(r"\w+|[^\w\s]", old)
    return [found.span() for found in re.finditer(r"\s*".join(map(re.escape, words)).encode(), source)]


def fails(killer: str) -> bool:
    """Run a test in the worktree; return whether it failed. The covering array chooses servers as in `make test`."""
    file, _, expression = killer.partition("::")
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    run = [sys.executable, "-m", "pytest", *OPTIONS, file, "-k", expression]
    try:
        ended = subprocess.run(run, cwd=TREE, env=environment, capture_output=True, check=False, timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        return True
    if ended.returncode not in {0, FAILED}:
        sys.exit(f"{killer} does not start:\n{ended.stdout.decode()}{ended.stderr.decode()}")
    return ended.returncode == FAILED


def survives(mutant: Mutant, number: int) -> bool:
    """Break the worktree, and return whether the mutant's test still passes, as it has to without the mutant."""
    if fails(mutant.killer):
        sys.exit(f"{mutant.name}: {mutant.killer} fails without it, too")
    path = TREE / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutated(mutant, source))
    # Python recognises outdated bytecode by the size and the second of its source; two mutants may share both.
    os.utime(path, (number, number))
    try:
        return not fails(mutant.killer)
    finally:
        path.write_bytes(source)


def main() -> None:
    """Print for each mutant whether its test killed it; exit with 1 if one survives. It mutates the committed code."""
    chosen = [int(number) for number in sys.argv[1:]] or range(len(MUTANTS))
    subprocess.run(["git", "worktree", "add", "--force", "--detach", str(TREE)], cwd=ROOT, check=True)
    survivors = 0
    try:
        for number in chosen:
            survived = survives(MUTANTS[number], number)
            survivors += survived
            print(number, "SURVIVES" if survived else "killed", MUTANTS[number].name, sep="\t", flush=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(TREE)], cwd=ROOT, check=True)
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
