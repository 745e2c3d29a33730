"""Mutants of what operators use: rights, history, journal, conditions, alerts."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

OPERATING = [
    Mutant(
        "an option shows the numbers of other teams",
        "rmq_airflow/plugin/access.py",
        "return team is None or get_auth_manager()",
        "return bool(team) or get_auth_manager()",
        "tests/airflow/plugin/test_rights.py::test_users_of_teams_have_their_rights",
    ),
    Mutant(
        "users who may see numbers only read errors that name the server",
        "rmq_core/console/security.py",
        'request.state.sees_server = right != "numbers" or',
        'request.state.sees_server = right == "numbers" or',
        "tests/console/test_rights.py::test_the_server_and_errors_that_may_name_it_need_a_right",
    ),
    Mutant(
        "the role view may change",
        "rmq_core/serve/access.py",
        '"view": ("numbers", "server", "messages"),',
        '"view": ("numbers", "server", "messages", "change"),',
        "tests/serve/test_attacks.py::test_a_role_may_do_what_it_names_and_nothing_else",
    ),
    Mutant(
        "changes need no --allow-changes",
        "rmq_core/serve/access.py",
        '(right != "change" or self._allow_changes)',
        '(right != "change" or True)',
        "tests/serve/test_attacks.py::test_a_role_may_do_what_it_names_and_nothing_else",
    ),
    Mutant(
        "any peer may name a user",
        "rmq_core/serve/access.py",
        "if not self._proxies.include(request.state.peer):",
        "if not request.state.peer:",
        "tests/serve/test_attacks.py::test_are_not_believed_from_another_address",
    ),
    Mutant(
        "a failed try is not counted",
        "rmq_core/serve/access.py",
        "            self._tries.add(address)\n",
        "",
        "tests/serve/test_attacks.py::test_is_stopped_after_ten_tries_even_with_the_right_token",
    ),
    Mutant(
        "a removed token goes on working",
        "rmq_core/serve/tokens.py",
        "            if stamp != self._stamp:",
        "            if self._stamp is None:",
        "tests/serve/test_attacks.py::test_a_token_whose_line_is_removed_or_unreadable_ends_with_the_next_request",
    ),
    Mutant(
        "a body in chunks has no limit",
        "rmq_core/serve/guard.py",
        "        if self._received > LARGEST_BODY:",
        "        if self._received < 0:",
        "tests/serve/test_attacks.py::test_cannot_make_the_server_read_a_large_body",
    ),
    Mutant(
        "a foreign page may send a change",
        "rmq_core/console/security.py",
        "    if foreign or x_rmq_request is None:",
        "    if x_rmq_request is None:",
        "tests/console/test_rights.py::test_a_foreign_page_can_neither_change_nor_search",
    ),
    Mutant(
        "a flush that is sent again counts twice",
        "rmq_core/lua/history/flush.lua",
        "if redis.call('GET', sent) == number then return 'counted before' end\n",
        "",
        "tests/redis/test_history.py::test_a_flush_whose_reply_was_lost_counts_once",
    ),
    Mutant(
        "a minute is added to that of the day before",
        "rmq_core/lua/history/flush.lua",
        "  return text and string.find(text, number_of .. ' ', 1, true) == 1 and text or ''",
        "  return text or ''",
        "tests/redis/test_history.py::test_old_minutes_are_overwritten_and_the_memory_of_a_busy_queue_is_bounded",
    ),
    Mutant(
        "a forked child counts the events of its parent",
        "rmq_core/queue/tally.py",
        "os.register_at_fork(after_in_child=_renew_all)\n",
        "",
        "tests/redis/test_history.py::test_a_forked_child_counts_its_own_events_only",
    ),
    Mutant(
        "a redelivered message is counted as waiting since it was published",
        "rmq_core/queue/tally.py",
        'if enqueued.isdigit() and stamp.startswith(b"0 "):',
        "if enqueued.isdigit():",
        "tests/redis/test_history.py::test_latencies_are_measured_for_each_message_and_not_for_redeliveries",
    ),
    Mutant(
        "the journal grows without a limit",
        "rmq_core/lua/journal/write.lua",
        "redis.call('XADD', journal, bound, '~', limit, '*', ",
        "redis.call('XADD', journal, '*', ",
        "tests/redis/test_journal.py::test_a_journal_keeps_the_newest_entries",
    ),
    Mutant(
        "a refused journal entry fails the operation",
        "rmq_core/queue/journal.py",
        "            return  # the operation has had its effect; a full server refuses the entry",
        "            raise",
        "tests/redis/test_journal.py::test_a_full_server_refuses_an_entry_and_not_the_operation",
    ),
    Mutant(
        "a lease id that is used again belongs to its first messages",
        "rmq_core/queue/journal.py",
        "                leases.pop(entry.lease_id, None)  # the id of the lease is used again, for other messages",
        "                pass",
        "tests/redis/test_journal.py::test_a_lease_id_that_is_used_again_tells_nothing_about_earlier_messages",
    ),
    Mutant(
        "a condition on a header is met by every message",
        "rmq_core/envelope/matching.py",
        "        return any(self.header in (name,",
        "        return not message.headers or any(self.header in (name,",
        "tests/unit/test_matching.py::test_a_message_without_headers_meets_no_condition_on_a_header",
    ),
    Mutant(
        "a queue is called old while its oldest message is young",
        "rmq_core/console/attention.py",
        "target is not None and age > target",
        "target is not None and age < target",
        "tests/console/test_attention.py::test_each_queue_that_needs_attention_says_why",
    ),
]
