"""Mutation tests: break RMQ in one place at a time and print which test fails: `python tools/mutants.py [number ...]`.

`make test` runs a share of the full product. It is enough if `make test` fails for each of these mutants. Each names a
test that kills it, which runs first, without the mutant and with it; if it passes both times, all others are searched
for one that fails. The mutants are made in a git worktree under `build`; a mutant's number is its index in MUTANTS. The
committed code must pass first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TREE = ROOT / "build" / "mutants"
OPTIONS = ["-q", "--maxfail=1", "--tb=no", "--hypothesis-profile=ci"]
SEARCH = (
    ["-n", "2", "tests/unit"],
    ["-n", "2", "tests/redis"],
    ["-n", "2", "tests/faults", "--ignore=tests/faults/airflow", "--ignore=tests/faults/dagster"],
)
HANGS_S = 900
SELECTS_NOTHING = 5  # pytest's exit code


class Mutant(NamedTuple):
    """A change to one file: `old`, which occurs once, becomes `new`. `killer` is a test that fails then.

    A killer is `file::expression`, where the expression is for pytest's `-k` and begins with the name of the test. So
    the covering array chooses server and façade as in `make test`; a test selected by its id would run with all. A new
    mutant may go without until this script has found a test.
    """

    name: str
    file: str
    old: str
    new: str
    killer: str = ""

    def killed_by(self) -> list[str]:
        """The tests that fail, or the arguments with which pytest hangs or does not start; none if it survives."""
        path = TREE / self.file
        source = path.read_text("utf-8")
        if source.count(self.old) != 1:
            sys.exit(f"{self.name}: {self.file} does not contain `old` exactly once; adapt the mutant")
        test, _, expression = self.killer.partition("::")
        named = [[test, "-k", expression]] if self.killer else []
        if any(map(_failed, named)):
            sys.exit(f"{self.name}: its killer fails without it, too")
        path.write_text(source.replace(self.old, self.new), "utf-8")
        try:
            return next(filter(None, map(_failed, [*named, *SEARCH])), [])
        finally:
            path.write_text(source, "utf-8")


def _failed(tests: list[str]) -> list[str]:
    # Bytecode is told from its source by size and second; a mutant may have both in common with what it replaces.
    environment = {**os.environ, "PYTHONPATH": str(TREE), "PYTHONDONTWRITEBYTECODE": "1"}
    asked = " ".join(tests)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *tests],
            cwd=TREE, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"{asked} hangs"]
    if result.returncode == SELECTS_NOTHING:
        sys.exit(f"no test is selected by {asked}; adapt the killer")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return failed or [f"{asked} does not start"] * bool(result.returncode)


MUTANTS = [
    Mutant(
        "async driver never resends",
        "rmq_core/exchange/aio.py",
        "        except RETRYABLE as error:\n            await self._recover()\n",
        "        except RETRYABLE as error:\n            raise\n            await self._recover()\n",
        "tests/unit/exchange/test_drivers.py::test_a_call_whose_reply_was_lost_is_resent_unchanged",
    ),
    Mutant(
        "async driver keeps the connection of a cancelled call",
        "rmq_core/exchange/aio.py",
        "            await connection.disconnect(nowait=True)\n            if reason",
        "            if reason",
        "tests/unit/exchange/test_patience.py::test_a_cancellation_by_the_caller_is_raised_as_a_cancellation",
    ),
    Mutant(
        "async driver resends the wait too",
        "rmq_core/exchange/aio.py",
        "return await retrying(send, again)",
        "return await retrying(send, first)",
        "tests/unit/exchange/test_drivers.py::test_a_completed_wait_is_not_repeated_in_a_resend",
    ),
    Mutant(
        "async driver drops a cancellation while connecting",
        "rmq_core/exchange/aio.py",
        "            raise asyncio.CancelledError\n",
        "            pass\n",
        "tests/unit/exchange/test_drivers.py::test_a_cancellation_swallowed_while_connecting_still_ends_the_call",
    ),
    Mutant(
        "async driver gives up on NOSCRIPT",
        "rmq_core/exchange/aio.py",
        "if unknown_script(replies):",
        "if False:",
        "tests/unit/exchange/test_drivers.py::test_a_script_the_server_does_not_know_is_sent_whole_in_the_same_slot",
    ),
    Mutant(
        "async driver uses connections of another loop",
        "rmq_core/exchange/aio.py",
        " and self._owner[1] is asyncio.get_running_loop() else",
        " else",
        "tests/unit/exchange/test_drivers.py::test_a_connection_is_not_used_in_another_event_loop_than_its_own",
    ),
    Mutant(
        "async driver has no timeout",
        "rmq_core/exchange/aio.py",
        "if self.timeout_s is not None:\n            task",
        "if False:\n            task",
        "tests/unit/exchange/test_patience.py::test_a_missing_reply_closes_the_connection_and_the_call_is_resent",
    ),
    Mutant(
        "async heartbeat extends nothing",
        "rmq_core/queue/aio_heartbeats.py",
        "kept = list(await queue.extend_all([heartbeat.asked() for heartbeat in due]))",
        "kept = [True for heartbeat in due]",
        "tests/unit/facade/test_heartbeats.py::test_a_beat_on_asyncio_treats_answers_as_the_thread_does",
    ),
    Mutant(
        "async driver on a cluster sends to any node",
        "rmq_core/exchange/aio.py",
        "self.client.get_node_from_key(self._key.decode())",
        "self.client.get_random_node()",
        "tests/unit/exchange/test_clusters.py::test_a_call_goes_to_the_node_that_has_the_slot_of_its_queue",
    ),
    Mutant(
        "async driver does not refresh the nodes of the cluster",
        "rmq_core/exchange/aio.py",
        "                await cancellable(self.client.nodes_manager.initialize())",
        "                pass",
        "tests/unit/exchange/test_clusters.py::test_a_call_whose_queue_has_moved_is_sent_again_to_its_new_node",
    ),
    Mutant(
        "ack is a release",
        "rmq_core/discipline/leased/methods.py",
        "    ack = Method(settling.ack)",
        "    ack = Method(settling.release)",
        "tests/redis/test_leased_settle.py::test_acked_messages_are_deleted",
    ),
    Mutant(
        "sync driver never resends",
        "rmq_core/exchange/sync.py",
        "        except RETRYABLE as error:\n            self._recover()\n",
        "        except RETRYABLE as error:\n            raise\n            self._recover()\n",
        "tests/unit/exchange/test_drivers.py::test_a_call_whose_reply_was_lost_is_resent_unchanged",
    ),
    Mutant(
        "sync driver in a forked child uses the parent's connections",
        "rmq_core/exchange/sync.py",
        "if self._pid != process.id:\n            self._pid",
        "if False:\n            self._pid",
        "tests/redis/test_leased_clients.py::test_a_forked_child_and_its_parent_do_not_get_in_each_others_way",
    ),
    Mutant(
        "sync driver on a cluster sends to the default node",
        "rmq_core/exchange/sync.py",
        "nodes.get_node_from_slot(self.client.keyslot(self._key))",
        "self.client.get_default_node()",
        "tests/unit/exchange/test_clusters.py::test_a_call_goes_to_the_node_that_has_the_slot_of_its_queue",
    ),
    Mutant(
        "sync driver does not refresh the nodes of the cluster",
        "rmq_core/exchange/sync.py",
        "                self.client.nodes_manager.initialize()",
        "                pass",
        "tests/unit/exchange/test_clusters.py::test_a_call_whose_queue_has_moved_is_sent_again_to_its_new_node",
    ),
    Mutant(
        "a slot's number does not grow",
        "rmq_core/exchange/slots.py",
        "slot.seq += 1",
        "slot.seq = 1",
        "tests/unit/exchange/test_slots.py::test_numbers_of_a_slot_only_grow",
    ),
    Mutant(
        "a forked child uses its parent's slots",
        "rmq_core/exchange/slots.py",
        "if own.pid != process.id:\n            own = self._own",
        "if False:\n            own = self._own",
        "tests/unit/exchange/test_slots.py::test_a_forked_child_has_its_own_slots",
    ),
    Mutant(
        "chained chunks do not name the previous chunk",
        "rmq_core/exchange/frames.py",
        "isinstance(want, Chain) else None",
        "False else None",
        "tests/unit/exchange/test_frames.py::test_a_chained_call_ends_with_the_slot_and_number_of_its_predecessor",
    ),
    Mutant(
        "a client's own policy is ignored",
        "rmq_core/exchange/sync.py",
        "if patience.budget_s is None:",
        "if False:",
        "tests/unit/exchange/test_resending.py::test_without_a_budget_a_call_is_retried_by_the_policy_of_the_client",
    ),
    Mutant(
        "the public driver does not undecode",
        "rmq_core/exchange/public.py",
        "    if isinstance(reply, str):\n        return reply.encode()",
        "    if isinstance(reply, str):\n        return reply",
        "tests/unit/exchange/test_public.py::test_replies_are_bytes_whether_or_not_the_client_decodes",
    ),
    Mutant(
        "the once driver tries again",
        "rmq_core/exchange/once.py",
        "        try:\n            return send(first)\n        except RETRYABLE:\n            self._recover()\n            raise",  # noqa: E501
        "        try:\n            return send(first)\n        except RETRYABLE:\n            self._recover()\n            return send(first)",  # noqa: E501
        "tests/unit/exchange/test_once.py::test_a_request_whose_connection_is_lost_is_sent_once",
    ),
    Mutant(
        "READONLY as Redis 6.2 wraps it is final",
        "rmq_core/exchange/frames.py",
        ' or ": -READONLY " in text',
        "",
        "tests/unit/exchange/test_frames.py::test_a_call_is_resent_when_the_server_cannot_answer_now",
    ),
    Mutant(
        "a fail-over's UNBLOCKED is final",
        "rmq_core/exchange/frames.py",
        '"UNBLOCKED", "LOADING"',
        '"LOADING"',
        "tests/unit/exchange/test_frames.py::test_a_call_is_resent_when_the_server_cannot_answer_now",
    ),
    Mutant(
        "XACKDEL (8.6): what is gone is not counted",
        "rmq_core/lua/include/jobs_entry.lua",
        "if verdict == 1 then",
        "if verdict == 2 then",
        "tests/redis/jobs/test_server.py::test_a_job_is_requeued_or_failed_once",
    ),
    Mutant(
        "plain servers (6.2, 7.0, Valkey): acked jobs stay on the stream",
        "rmq_core/lua/include/jobs_entry.lua",
        "  redis.call('XDEL', ready, unpack(ids))\n  return acked",
        "  return acked",
        "tests/redis/jobs/test_leases.py::test_a_claim_takes_jobs_off_the_stream_and_holds_them",
    ),
    Mutant(
        "IDMP (8.6) is not used",
        "rmq_core/lua/jobs/prepare.lua",
        "if not set.err then return 'native' end",
        "if not set.err then return 'plain' end",
        "tests/redis/jobs/test_server.py::test_features_of_a_newer_server_are_used",
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
    Mutant(
        "a request older than the last one of its slot is executed",
        "rmq_core/lua/include/replay.lua",
        "if last > mine then return 'superseded' end",
        "if last > mine then return nil end",
        "tests/faults/test_reliable_lost_replies.py::test_a_message_moved_by_a_late_blmove_goes_to_the_next_claim_of_its_worker",
    ),
    Mutant(
        "a resend is executed again",
        "rmq_core/lua/include/replay.lua",
        "if last < mine then return nil end",
        "if last <= mine then return nil end",
        "tests/redis/test_leased_replay.py::test_an_operation_whose_reply_was_lost_happens_once_and_returns_the_same",
    ),
    Mutant(
        "a refusal is not remembered",
        "rmq_core/lua/include/replay.lua",
        "  return remember(reply)\nend",
        "  return reply\nend",
        "tests/faults/test_late_requests.py::test_a_late_request_has_no_effect_that_its_caller_was_told_did_not_happen",
    ),
    Mutant(
        "the token is compared by its fence alone",
        "rmq_core/lua/include/head.lua",
        "head.token == token then",
        "string.match(head.token, '^%d+') == string.match(token, '^%d+') then",
        "tests/faults/test_failover.py::test_a_token_from_before_the_failover_is_invalid_when_its_number_is_reused",
    ),
    Mutant(
        "a finished lease stays among the leases",
        "rmq_core/lua/include/finish.lua",
        "  redis.call('ZREM', k.leases, k.id)\n",
        "",
        "tests/redis/test_leased_settle.py::test_settling_the_last_message_ends_the_lease_and_leaves_the_record",
    ),
    Mutant(
        "requeued messages go to the end",
        "rmq_core/lua/include/give_back.lua",
        "redis.call('LPUSH', keys.ready, unpack(back))",
        "redis.call('RPUSH', keys.ready, unpack(back))",
        "tests/redis/test_leased_settle.py::test_a_nacked_message_is_first_again_with_its_failure_in_its_history",
    ),
    Mutant(
        "settled messages are requeued too",
        "rmq_core/lua/include/give_back.lua",
        "if not is_settled(bits, first, index) then",
        "if true then",
        "tests/redis/test_leased_settle.py::test_releasing_the_rest_of_a_lease_excludes_what_was_settled",
    ),
    Mutant(
        "a message dies one failure late",
        "rmq_core/lua/include/give_back.lua",
        "count - made.shared >= max)",
        "count - made.shared > max)",
        "tests/redis/test_leased_settle.py::test_a_message_that_fails_too_often_becomes_a_dead_letter",
    ),
    Mutant(
        "the group is not isolated",
        "rmq_core/lua/include/give_back.lua",
        "if failures > 1 then group",
        "if failures > 9 then group",
        "tests/redis/test_leased_isolation.py::test_messages_that_failed_together_twice_come_in_halves_and_the_others_in_full",
    ),
    Mutant(
        "delayed messages never become ready",
        "rmq_core/lua/include/promote.lua",
        "'ZRANGEBYSCORE', delayed, 0, now,",
        "'ZRANGEBYSCORE', delayed, 0, 1,",
        "tests/redis/test_conformance.py::test_a_promise_is_kept_or_refused"
        " and leased-a-delayed-message-is-claimed-when-its-time-has-come-and-not-before",
    ),
    Mutant(
        "an earlier due time wakes no waiter",
        "rmq_core/lua/include/timer.lua",
        "return not held or due < held",
        "return not held",
        "tests/redis/test_leased_wait.py::test_only_an_earlier_due_time_wakes_the_waiting_claim_that_holds_the_timer",
    ),
    Mutant(
        "publishing wakes no waiter",
        "rmq_core/lua/include/notify.lua",
        "if redis.call('ZCOUNT', waiters, now, '+inf') > seen.tokens then",
        "if false then",
        "tests/redis/test_leased_wait.py::test_only_an_earlier_due_time_wakes_the_waiting_claim_that_holds_the_timer",
    ),
    Mutant(
        "every message sends a notification",
        "rmq_core/lua/include/notify.lua",
        "if redis.call('ZREM', waiters, '*') == 1 then",
        "if redis.call('ZSCORE', waiters, '*') then",
        "tests/redis/test_wait_hub.py::test_one_notification_is_sent_for_any_number_of_published_messages",
    ),
    Mutant(
        "an id stamped in the future is never late",
        "rmq_core/lua/include/stamps.lua",
        "math.abs(now_s - stamp)",
        "(now_s - stamp)",
        "tests/redis/rotation/test_rotation.py::test_a_timestamp_far_in_the_future_does_not_block_its_id_forever",
    ),
    Mutant(
        "reliable: a message dies one failure late",
        "rmq_core/lua/include/set_aside.lua",
        "count >= how.max_deliveries",
        "count > how.max_deliveries",
        "tests/redis/reliable/test_pattern.py::test_the_last_nack_makes_a_dead_letter_that_can_be_redriven",
    ),
    Mutant(
        "streams: consumers that hold nothing stay",
        "rmq_core/lua/include/holder.lua",
        "redis.call('XGROUP', 'DELCONSUMER', key, group, consumer) end",
        "local _ = 1 end",
        "tests/redis/streams/test_work_queue.py::test_a_lease_is_a_consumer_of_the_group_that_is_deleted_with_it",
    ),
    Mutant(
        "a takeover counts no delivery",
        "rmq_core/lua/include/takeover.lua",
        "if counted then head.takeovers = head.takeovers + 1 end",
        "",
        "tests/redis/test_leased_claim.py::test_a_crash_loop_on_one_id_ends_in_the_dead_letters_and_spares_the_others",
    ),
    Mutant(
        "a takeover keeps the old token",
        "rmq_core/lua/include/takeover.lua",
        "  head.token = redis.call('INCRBY', k.fence, 2) .. '.' .. o.nonce\n",
        "",
        "tests/redis/test_leased_claim.py::test_claiming_an_id_again_takes_its_messages_over_and_fences_the_former_holder",
    ),
    Mutant(
        "a large claim is not bounded in bytes",
        "rmq_core/lua/include/take.lua",
        "while taken < n and bytes < 8388608 do",
        "while taken < n do",
        "tests/redis/test_leased_large.py::test_large_payloads_move_no_more_than_eight_mebibytes_a_script",
    ),
    Mutant(
        "isolated messages never have their turn",
        "rmq_core/lua/include/open_lease.lua",
        "return (fence % 2 == 0) ~= swapped",
        "return false",
        "tests/redis/test_leased_isolation.py::test_fresh_messages_do_not_starve_isolated_ones",
    ),
]


def main() -> None:
    """Print each mutant with what kills it; exit with 1 when one survives."""
    chosen = [int(number) for number in sys.argv[1:]] or range(len(MUTANTS))
    subprocess.run(["git", "worktree", "add", "--force", "--detach", str(TREE)], cwd=ROOT, check=True)
    survivors = 0
    try:
        for number in chosen:
            killed_by = MUTANTS[number].killed_by()
            survivors += not killed_by
            print(number, MUTANTS[number].name, *(killed_by or ["SURVIVES"]), sep="\t", flush=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(TREE)], cwd=ROOT, check=True)
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
