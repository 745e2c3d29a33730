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
    Mutant(
        "format: an envelope separates its fields otherwise",
        "rmq_core/lua/include/envelope.lua",
        "return '0 ' .. now .. ' 0 '",
        "return '0,' .. now .. ' 0 '",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_messages",
    ),
    Mutant(
        "format: an envelope has its time before its deliveries",
        "rmq_core/envelope/codec.py",
        'b"%d %d 0 " % (deliveries, enqueued_ms)',
        'b"%d %d 0 " % (enqueued_ms, deliveries)',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_filling",
    ),
    Mutant(
        "format: an envelope has its payload before its headers",
        "rmq_core/envelope/codec.py",
        "len(headers), headers, payload)",
        "len(headers), payload, headers)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_messages",
    ),
    Mutant(
        "format: an envelope does not count the bytes of its history",
        "rmq_core/lua/include/envelope.lua",
        "count .. ' ' .. kept .. ' ' .. #history .. ' ' .. history .. body",
        "count .. ' ' .. kept .. ' 0 ' .. history .. body",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: bytes have another kind",
        "rmq_core/envelope/payloads.py",
        'kind, data = "b", payload',
        'kind, data = "s", payload',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_messages",
    ),
    Mutant(
        "format: JSON is not sorted",
        "rmq_core/envelope/payloads.py",
        '":", ",", True, False, False)',
        '":", ",", False, False, False)',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_messages",
    ),
    Mutant(
        "format: JSON has spaces",
        "rmq_core/envelope/payloads.py",
        '":", ",", True, False, False)',
        '": ", ",", True, False, False)',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_messages",
    ),
    Mutant(
        "format: a digest has another length",
        "rmq_core/envelope/payloads.py",
        "digest_size=16",
        "digest_size=20",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a digest does not depend on the kind",
        "rmq_core/envelope/payloads.py",
        ", person=kind.encode())",
        ")",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a nack's line of history has spaces",
        "rmq_core/lua/leased/give_back.lua",
        "{'nack', now, head.owner, reason}, '\\t'",
        "{'nack', now, head.owner, reason}, ' '",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a nack of some names no owner",
        "rmq_core/lua/leased/settle_some.lua",
        "{'nack', now, head.owner, reason}",
        "{'nack', now, '', reason}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: an expiry's line of history has its owner first",
        "rmq_core/lua/leased/reclaim.lua",
        "{'expired', now, head.owner, ''}",
        "{'expired', head.owner, now, ''}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a mark has another separator",
        "rmq_core/lua/include/give_back.lua",
        "text = '\\31' .. failures",
        "text = '\\30' .. failures",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a mark has its fields in another order",
        "rmq_core/lua/include/give_back.lua",
        "' ' .. group .. ' ' .. most .. ' ' .. shared end",
        "' ' .. most .. ' ' .. group .. ' ' .. shared end",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a mark leaves a field out",
        "rmq_core/lua/include/give_back.lua",
        "' ' .. most .. ' ' .. shared end",
        "' ' .. most end",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a mark with an addition is not read",
        "rmq_core/lua/include/mark.lua",
        "%d+)[^\\n]*\\n$'",
        "%d+)\\n$'",
        "tests/redis/stored/test_passed_on.py::test_an_isolated_message_with_an_addition_keeps_its_group",
    ),
    Mutant(
        "format: a redrive drops the addition of a mark",
        "rmq_core/lua/include/absolve.lua",
        "return addition == '' and '\\n' or '\\0310 0 0 0' .. addition .. '\\n'",
        "return '\\n'",
        "tests/redis/stored/test_passed_on.py::test_a_dead_letter_with_additions_is_redriven_with_them",
    ),
    Mutant(
        "format: an isolated group has another score",
        "rmq_core/lua/include/give_back.lua",
        "set_delayed(keys.delayed, -group, envelope)",
        "set_delayed(keys.delayed, -group - 0.5, envelope)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a delayed message has a score in seconds",
        "rmq_core/lua/leased/publish.lua",
        "local due = now + delay_ms",
        "local due = (now + delay_ms) / 1000",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_messages",
    ),
    Mutant(
        "format: a token has another separator",
        "rmq_core/lua/include/hold.lua",
        "return fence .. '.' .. o.nonce",
        "return fence .. ':' .. o.nonce",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the head of a lease of one has another order",
        "rmq_core/lua/include/hold.lua",
        "token .. ' h ' .. now .. ' 0 0 ' .. o.owner",
        "token .. ' h 0 0 ' .. now .. ' ' .. o.owner",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the head of a lease has no owner",
        "rmq_core/lua/include/open_ready.lua",
        "' ' .. now .. ' 0 0 ' .. o.owner",
        "' ' .. now .. ' 0 0 '",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the head of a lease has its counts swapped",
        "rmq_core/lua/include/head.lua",
        "h.takeovers .. ' ' .. h.returned .. ' ' .. h.owner",
        "h.returned .. ' ' .. h.takeovers .. ' ' .. h.owner",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: a lease that is filled has another state",
        "rmq_core/lua/include/open_ready.lua",
        "token .. ' f' .. rest",
        "token .. ' g' .. rest",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_filling",
    ),
    Mutant(
        "format: a lease settled in part has another state",
        "rmq_core/lua/leased/settle_some.lua",
        "  head.state = 'p'",
        "  head.state = 's'",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: a lease that is nacked has another state",
        "rmq_core/lua/leased/give_back.lua",
        "state, most = 'n',",
        "state, most = 'd',",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_nacking",
    ),
    Mutant(
        "format: a lease that is released has another state",
        "rmq_core/lua/leased/give_back.lua",
        "local state, most, how = 'l',",
        "local state, most, how = 'g',",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and releasing",
    ),
    Mutant(
        "format: a lease that is reclaimed has another state",
        "rmq_core/lua/leased/reclaim.lua",
        "releasing and 'r' or 'x'",
        "releasing and 'r' or 'e'",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reclaiming",
    ),
    Mutant(
        "format: the head does not keep how many messages failed together",
        "rmq_core/lua/include/failure.lua",
        "then head.returned = open end",
        "then head.returned = 0 end",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: a deadline is kept in seconds",
        "rmq_core/lua/include/hold.lua",
        "string.format('%.0f', now + tonumber(o.lease_ms))",
        "string.format('%.0f', (now + tonumber(o.lease_ms)) / 1000)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: a lease for ever has a deadline",
        "rmq_core/lua/include/hold.lua",
        "return '+inf'",
        "return '9999999999999'",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the bitmap of settled messages begins with 1",
        "rmq_core/lua/leased/settle_some.lua",
        "redis.call('SETBIT', settled, index, 1) == 1",
        "redis.call('SETBIT', settled, index + 1, 1) == 1",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the record of an acked lease has another order",
        "rmq_core/lua/include/finish.lua",
        "count - returned .. ' ' .. now .. ' ' .. head.owner",
        "now .. ' ' .. count - returned .. ' ' .. head.owner",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: dead letters grow at the other end",
        "rmq_core/lua/include/give_back.lua",
        "redis.call('LPUSH', keys.dead, unpack(dead))",
        "redis.call('RPUSH', keys.dead, unpack(dead))",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: the log of failures grows at the other end",
        "rmq_core/lua/include/give_back.lua",
        "redis.call('LPUSH', keys.failed, unpack(failed))",
        "redis.call('RPUSH', keys.failed, unpack(failed))",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_failures",
    ),
    Mutant(
        "format: the log of acked messages grows at the other end",
        "rmq_core/lua/include/finish.lua",
        "redis.call('LPUSH', k.completed, unpack(acked))",
        "redis.call('RPUSH', k.completed, unpack(acked))",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and message_queue",
    ),
    Mutant(
        "format: ready grows at the other end",
        "rmq_core/lua/leased/publish.lua",
        "redis.call('RPUSH', ready, unpack(fresh))",
        "redis.call('LPUSH', ready, unpack(fresh))",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: a consumer's record has another field",
        "rmq_core/lua/leased/register_consumer.lua",
        "'until', now + alive_ms",
        "'alive', now + alive_ms",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: a consumer's record leaves a field out",
        "rmq_core/lua/leased/register_consumer.lua",
        "'before', before, 'before_finished', before_finished)",
        "'before', before)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: a staged message has another first byte",
        "rmq_core/discipline/leased/operations/staging.py",
        'b"\\x01%d %b %b"',
        'b"\\x02%d %b %b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a staged message has its digest first",
        "rmq_core/discipline/leased/operations/staging.py",
        '%b %b" % (entry.delay_ms, digest.encode(), entry.body)',
        '%b %b" % (entry.delay_ms, entry.body, digest.encode())',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a publication lists its stages in another order of fields",
        "rmq_core/discipline/leased/operations/staging.py",
        'f"{each.count} {each.plain:d} {each.id}"',
        'f"{each.plain:d} {each.count} {each.id}"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a publication has another prefix",
        "rmq_core/discipline/leased/operations/staging.py",
        'PUBLICATION = b"~+"',
        'PUBLICATION = b"~p"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a published stage expires",
        "rmq_core/lua/leased/publish_staged.lua",
        "do redis.call('PERSIST', stages[i]) end",
        "do redis.call('PTTL', stages[i]) end",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a sink does not keep its batch",
        "rmq_core/lua/leased/publish_staged.lua",
        "redis.call('SET', sink, batch,",
        "redis.call('SET', sink, 1,",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: a pause is another member",
        "rmq_core/lua/leased/pause.lua",
        "redis.call('ZADD', waiters, 0, '=')",
        "redis.call('ZADD', waiters, 0, 'p')",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_waiting",
    ),
    Mutant(
        "format: a wake token is another",
        "rmq_core/lua/include/notify.lua",
        "redis.call('LPUSH', wake, '1')",
        "redis.call('LPUSH', wake, '0')",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_waiting",
    ),
    Mutant(
        "format: the timer has another order",
        "rmq_core/lua/include/waiting.lua",
        "due .. ' ' .. o.waiter,",
        "o.waiter .. ' ' .. due,",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_waiting",
    ),
    Mutant(
        "format: a slot has another separator",
        "rmq_core/lua/include/replay.lua",
        "seq .. ' ' .. reply,",
        "seq .. ':' .. reply,",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the key of a slot has another separator",
        "rmq_core/exchange/slots.py",
        'b"%bslot:%b/%d"',
        'b"%bslot:%b:%d"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_slots",
    ),
    Mutant(
        "format: the key of a lease has another name",
        "rmq_core/queue/keys.py",
        'b"%blease:%b"',
        'b"%bleased:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the key of a bitmap has another name",
        "rmq_core/queue/keys.py",
        'b"%bsettled:%b"',
        'b"%bbits:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the key of a record has another name",
        "rmq_core/queue/keys.py",
        'b"%bdone:%b"',
        'b"%backed:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the key of a consumer has another name",
        "rmq_core/queue/keys.py",
        'b"%bconsumer:%b"',
        'b"%breader:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the key of a stage has another name",
        "rmq_core/queue/keys.py",
        'b"%bstage:%b"',
        'b"%bstages:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: the key of a publication has another name",
        "rmq_core/queue/keys.py",
        'b"%bstaged:%b"',
        'b"%bpublication:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: the key of a sink has another name",
        "rmq_core/queue/keys.py",
        'b"%bsink:%b"',
        'b"%bsinks:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: the key of a deduplication has another name",
        "rmq_core/queue/keys.py",
        'b"%bdedup:%b"',
        'b"%bunique:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_stages",
    ),
    Mutant(
        "format: the set of all queues has another name",
        "rmq_core/queue/keys.py",
        'QUEUES = b"rmq:queues"',
        'QUEUES = b"rmq:names"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and leased_leases",
    ),
    Mutant(
        "format: the set of a discipline has another name",
        "rmq_core/queue/keys.py",
        'b"%b:%b" % (QUEUES, discipline.encode())',
        'b"%b/%b" % (QUEUES, discipline.encode())',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a name in braces is written otherwise",
        "rmq_core/compat/keys.py",
        'quote(character, safe="") if',
        'f"_{ord(character)}" if',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and message_queue",
    ),
    Mutant(
        "format: a gateway's token has another separator",
        "rmq_core/compat/stored.py",
        'return f"{lease.id}:{lease.token}"',
        'return f"{lease.id}/{lease.token}"',
        "tests/redis/stored/test_read_others.py::test_a_message_queue_settles_by_the_token_of_its_gateway",
    ),
    Mutant(
        "format: reliable keys have another prefix",
        "rmq_core/discipline/reliable/keys.py",
        'fill(self, "rmq:reliable:{{{}}}:")',
        'fill(self, "rmq:lists:{{{}}}:")',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: the list of a worker has another name",
        "rmq_core/discipline/reliable/keys.py",
        'b"%bprocessing:%b"',
        'b"%bheld:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: the claims of a worker have another name",
        "rmq_core/discipline/reliable/keys.py",
        'b"%bclaims:%b"',
        'b"%bholds:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a claim of a worker has another order",
        "rmq_core/lua/reliable/claim.lua",
        "token .. ' ' .. now .. ' ' .. (lease_ms > 0 and now + lease_ms or 0)",
        "now .. ' ' .. token .. ' ' .. (lease_ms > 0 and now + lease_ms or 0)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a claim of a worker leaves its end out",
        "rmq_core/lua/reliable/claim.lua",
        "(lease_ms > 0 and now + lease_ms or 0)",
        "0",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a reliable queue grows at the other end",
        "rmq_core/lua/reliable/publish.lua",
        "redis.call('LPUSH', queue,",
        "redis.call('RPUSH', queue,",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a reliable nack's line names no worker",
        "rmq_core/lua/reliable/settle.lua",
        "{'nack', clock(), worker, reason}",
        "{'nack', clock(), '', reason}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a reaper's line has another word",
        "rmq_core/lua/reliable/reap.lua",
        "{'expired', now, worker, ''}",
        "{'reaped', now, worker, ''}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a stray has no time",
        "rmq_core/lua/reliable/reap.lua",
        "redis.call('HSETNX', strays, id, now)",
        "redis.call('HSETNX', strays, id, 1)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: a worker has no time",
        "rmq_core/lua/reliable/claim.lua",
        "redis.call('ZADD', workers, now, worker)",
        "redis.call('ZADD', workers, 1, worker)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and reliable",
    ),
    Mutant(
        "format: an id has another separator",
        "rmq_core/lua/rotation/pop.lua",
        "id .. '|' .. now_s",
        "id .. '/' .. now_s",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and rotation",
    ),
    Mutant(
        "format: an id that looks stamped gets no zero",
        "rmq_core/discipline/rotation/entries.py",
        'return data + b"|0" if',
        "return data if",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and rotation",
    ),
    Mutant(
        "format: ids in progress are not counted",
        "rmq_core/lua/rotation/pop.lua",
        "else redis.call('HINCRBY', taken, id, 1) end",
        "else redis.call('HSET', taken, id, 1) end",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and rotation",
    ),
    Mutant(
        "format: a done id is no member",
        "rmq_core/lua/rotation/mark_done.lua",
        "redis.call('ZINCRBY', done, 1, id)",
        "redis.call('ZINCRBY', done, 2, id)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and rotation",
    ),
    Mutant(
        "format: rotation keys have another prefix",
        "rmq_core/discipline/rotation/keys.py",
        'b"rmq:rotation:{%b}:"',
        'b"rmq:rotating:{%b}:"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and rotation",
    ),
    Mutant(
        "format: an entry of a stream has another field",
        "rmq_core/discipline/streams/messages.py",
        'FIELD = b"data"',
        'FIELD = b"json"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and streams",
    ),
    Mutant(
        "format: an entry of a stream has another field in a script",
        "rmq_core/lua/streams/publish.lua",
        "'*', 'data', payloads[i]",
        "'*', 'json', payloads[i]",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and streams",
    ),
    Mutant(
        "format: the stream has another name",
        "rmq_core/discipline/streams/keys.py",
        '}}:stream"',
        '}}:entries"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and streams",
    ),
    Mutant(
        "format: given back entries have another consumer",
        "rmq_core/discipline/streams/keys.py",
        'BACK = "~"',
        'BACK = "-"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and streams",
    ),
    Mutant(
        "format: the consumer of a lease has another separator",
        "rmq_core/discipline/streams/operations/claiming.py",
        "}/{nonce()}.{nonce()}",
        "}/{nonce()}:{nonce()}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and streams",
    ),
    Mutant(
        "format: a release counts a delivery of an entry",
        "rmq_core/lua/streams/settle.lua",
        "'RETRYCOUNT', deliveries[id] - 1,",
        "'RETRYCOUNT', deliveries[id],",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and streams",
    ),
    Mutant(
        "format: jobs keys have another prefix",
        "rmq_core/discipline/jobs/keys.py",
        'fill(self, "rmq:{{{}}}:jobs:")',
        'fill(self, "rmq:{{{}}}:job:")',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: the group of jobs has another name",
        "rmq_core/discipline/jobs/keys.py",
        'GROUP = b"jobs"',
        'GROUP = b"workers"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a job has another field",
        "rmq_core/lua/jobs/add.lua",
        "redis.call('XADD', ready, '*', 'e', envelope)",
        "redis.call('XADD', ready, '*', 'j', envelope)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a job's name is another header",
        "rmq_core/discipline/jobs/job.py",
        '"rmq-name", "rmq-attempts"',
        '"rmq-title", "rmq-attempts"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a job's attempts are another header",
        "rmq_core/discipline/jobs/job.py",
        '"rmq-name", "rmq-attempts"',
        '"rmq-name", "rmq-tries"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a job's backoff has another separator",
        "rmq_core/discipline/jobs/job.py",
        "{backoff.base} {backoff.cap} {backoff.jitter}",
        "{backoff.base},{backoff.cap},{backoff.jitter}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: the head of a lease of jobs has another order",
        "rmq_core/lua/include/jobs_lease.lua",
        "{h.token, h.takeovers, h.count, h.returned, h.claimed, h.owner}",
        "{h.token, h.count, h.takeovers, h.returned, h.claimed, h.owner}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: the head of a lease of jobs leaves a field out",
        "rmq_core/lua/include/jobs_lease.lua",
        "h.returned, h.claimed, h.owner}, ' '",
        "h.returned, h.owner}, ' '",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: a leased job has another entry id",
        "rmq_core/lua/include/jobs_take.lua",
        "(at + taken) .. '-0'",
        "(at + taken - 1) .. '-1'",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: the record of acked jobs has another order",
        "rmq_core/lua/jobs/settle.lua",
        "math.max(0, head.count - head.returned) .. ' ' .. now",
        "now .. ' ' .. math.max(0, head.count - head.returned)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: a second delayed job has another name",
        "rmq_core/lua/include/jobs_later.lua",
        "name = id .. ' ' .. n",
        "name = id .. '/' .. n",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: an event has another field",
        "rmq_core/lua/include/jobs_entry.lua",
        "'event', event, 'ids'",
        "'event', event, 'jobs'",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: an event leaves its detail out",
        "rmq_core/lua/include/jobs_entry.lua",
        ", 'detail', detail or '')",
        ")",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a result has another field",
        "rmq_core/lua/jobs/turn.lua",
        "'state', 'completed', 'value', finished[i]",
        "'state', 'completed', 'result', finished[i]",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a dead job's result has another state",
        "rmq_core/lua/jobs/fail.lua",
        "'state', 'dead', 'value'",
        "'state', 'failed', 'value'",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a job's failure names no worker",
        "rmq_core/lua/jobs/fail.lua",
        "{'nack', now, consumer, reason}",
        "{'nack', now, '', reason}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a job's nack has another separator",
        "rmq_core/lua/jobs/settle.lua",
        "{'nack', now, head.owner, reason}, '\\t'",
        "{'nack', now, head.owner, reason}, ' '",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: a job's expiry has another word",
        "rmq_core/lua/jobs/reclaim.lua",
        "{'expired', now, head.owner, ''}",
        "{'late', now, head.owner, ''}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: the id of a job is another kind of digest",
        "rmq_core/discipline/jobs/operations/adding.py",
        'digest("job", job_id.encode())',
        'digest("id", job_id.encode())',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: a unique id keeps no nonce",
        "rmq_core/lua/jobs/add.lua",
        "redis.call('SET', marker, nonce,",
        "redis.call('SET', marker, 1,",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: the key of a result has another name",
        "rmq_core/discipline/jobs/keys.py",
        'b"%bresult:%b"',
        'b"%bvalue:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: the key of a unique id has another name",
        "rmq_core/discipline/jobs/keys.py",
        'b"%bunique:%b"',
        'b"%bdedup:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs",
    ),
    Mutant(
        "format: the key of a lease of jobs has another name",
        "rmq_core/discipline/jobs/keys.py",
        'b"%blease:%b"',
        'b"%bleased:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: the key of a record of jobs has another name",
        "rmq_core/discipline/jobs/keys.py",
        'b"%bdone:%b"',
        'b"%backed:%b"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_leases",
    ),
    Mutant(
        "format: a rule has another field",
        "rmq_core/discipline/jobs/recurrence.py",
        'return {"every_ms": self.period_ms}',
        'return {"period_ms": self.period_ms}',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_rules",
    ),
    Mutant(
        "format: a rule leaves its headers out",
        "rmq_core/discipline/jobs/operations/repeating.py",
        'return {**rule, "headers": options}',
        'return {**rule, "headers": ""}',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_rules",
    ),
    Mutant(
        "format: a rule is not sorted",
        "rmq_core/discipline/jobs/operations/repeating.py",
        "json.dumps(rule, sort_keys=True, ensure_ascii=False)",
        "json.dumps(rule, ensure_ascii=False)",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_rules",
    ),
    Mutant(
        "format: a repeated job has another id",
        "rmq_core/discipline/jobs/operations/repeating.py",
        "{key}@{at_ms}",
        "{key}/{at_ms}",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_rules",
    ),
    Mutant(
        "format: a rule does not count how often it fired",
        "rmq_core/lua/jobs/rule_fire.lua",
        "  redis.call('HINCRBY', fired, key, #bodies)\n",
        "",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and jobs_rules",
    ),
    Mutant(
        "format: a hand-over has another name",
        "rmq_core/work/handover.py",
        'NAMES = ("queue", "lease_id", "owner")',
        'NAMES = ("queue", "lease_id")',
        "tests/redis/stored/test_read_handed_over.py::test_a_submitter_writes_the_environment_of_the_golden_file",
    ),
    Mutant(
        "format: a hand-over leaves the lease's length out",
        "rmq_core/work/handover.py",
        '            names["lease_ms"] = self.lease_ms\n',
        "            pass\n",
        "tests/redis/stored/test_read_handed_over.py::test_a_submitter_writes_the_environment_of_the_golden_file",
    ),
    Mutant(
        "format: a hand-over does not list its credentials",
        "rmq_core/work/handover.py",
        '        names["credentials"] = list(given)',
        '        names["secrets"] = list(given)',
        "tests/redis/stored/test_read_handed_over.py::test_a_submitter_writes_the_environment_of_the_golden_file",
    ),
    Mutant(
        "format: a hand-over has another variable for a credential",
        "rmq_core/work/handover.py",
        'return f"RMQ_{name.upper()}"',
        'return f"RMQ_REDIS_{name.upper()}"',
        "tests/redis/stored/test_read_handed_over.py::test_a_submitter_writes_the_environment_of_the_golden_file",
    ),
    Mutant(
        "format: a lease in JSON has another field",
        "rmq_core/messages.py",
        '"deadline_ms": self.deadline_ms, "named"',
        '"deadline": self.deadline_ms, "named"',
        "tests/redis/stored/test_read_handed_over.py::test_a_lease_in_json_is_written_and_read",
    ),
    Mutant(
        "format: an offset has no version",
        "rmq_spark/stream/offsets.py",
        'return {"v": VERSION, **asdict(self)}',
        "return asdict(self)",
        "tests/redis/stored/test_read_handed_over.py::test_an_offset_of_spark_is_written_and_read",
    ),
    Mutant(
        "format: a batch has another lease id",
        "rmq_spark/stream/offsets.py",
        'return f"{self.consumer}/{self.stream}/{self.seq}"',
        'return f"{self.consumer}/{self.seq}/{self.stream}"',
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and spark_stream",
    ),
    Mutant(
        "format: a finished batch is not recorded before its ack",
        "rmq_spark/stream/ledger.py",
        "        self._member.finish(seq)\n",
        "        self._member.check()\n",
        "tests/redis/stored/test_written.py::test_this_version_writes_the_bytes_of_the_golden_file and spark_stream",
    ),
    Mutant(
        "format: the format of a queue is another key",
        "rmq_core/exchange/format.py",
        'return prefix + b"format"',
        'return prefix + b"version"',
        "tests/redis/test_stored_format.py::test_an_older_client_reports_both_formats_and_writes_nothing",
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
