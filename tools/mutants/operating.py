"""Mutants of what operators use: rights, history, journal, conditions, alerts."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

OPERATING = [
    Mutant(
        "the role view may change",
        "rmq_core/serve/access.py",
        '"view": ("numbers", "messages"),',
        '"view": ("numbers", "messages", "change"),',
        "tests/serve/test_attacks.py",
    ),
    Mutant(
        "changes need no --allow-changes",
        "rmq_core/serve/access.py",
        '(right != "change" or self._allow_changes)',
        '(right != "change" or True)',
        "tests/serve/test_attacks.py",
    ),
    Mutant(
        "any peer may name a user",
        "rmq_core/serve/access.py",
        "if not self._proxies.include(request.state.peer):",
        "if not request.state.peer:",
        "tests/serve/test_attacks.py",
    ),
    Mutant(
        "a failed try is not counted",
        "rmq_core/serve/access.py",
        "            self._tries.add(address)\n",
        "",
        "tests/serve/test_attacks.py",
    ),
    Mutant(
        "a removed token goes on working",
        "rmq_core/serve/tokens.py",
        "            if stamp != self._stamp:",
        "            if self._stamp is None:",
        "tests/serve/test_attacks.py",
    ),
    Mutant(
        "a body in chunks has no limit",
        "rmq_core/serve/guard.py",
        "        if self._received > LARGEST_BODY:",
        "        if self._received < 0:",
        "tests/serve/test_attacks.py",
    ),
    Mutant(
        "a foreign page may send a change",
        "rmq_core/console/security.py",
        "    if foreign or x_rmq_request is None:",
        "    if x_rmq_request is None:",
        "tests/console/test_rights.py",
    ),
    Mutant(
        "a flush that is sent again counts twice",
        "rmq_core/lua/history/flush.lua",
        "if redis.call('GET', sent) == number then return 'counted before' end\n",
        "",
        "tests/redis/test_history.py",
    ),
    Mutant(
        "a minute is added to that of the day before",
        "rmq_core/lua/history/flush.lua",
        "  return text and string.find(text, number_of .. ' ', 1, true) == 1 and text or ''",
        "  return text or ''",
        "tests/redis/test_history.py",
    ),
    Mutant(
        "a forked child counts the events of its parent",
        "rmq_core/queue/tally.py",
        "os.register_at_fork(after_in_child=_renew_all)\n",
        "",
        "tests/redis/test_history.py",
    ),
    Mutant(
        "a redelivered message is counted as waiting since it was published",
        "rmq_core/queue/tally.py",
        'if enqueued.isdigit() and stamp.startswith(b"0 "):',
        "if enqueued.isdigit():",
        "tests/redis/test_history.py",
    ),
    Mutant(
        "the journal grows without a limit",
        "rmq_core/lua/journal/write.lua",
        "redis.call('XADD', journal, bound, '~', limit, '*', ",
        "redis.call('XADD', journal, '*', ",
        "tests/redis/test_journal.py",
    ),
    Mutant(
        "a refused journal entry fails the operation",
        "rmq_core/queue/journal.py",
        "            return  # the operation has had its effect; a full server refuses the entry",
        "            raise",
        "tests/redis/test_journal.py",
    ),
    Mutant(
        "a lease id that is used again belongs to its first messages",
        "rmq_core/queue/journal.py",
        "                leases.pop(entry.lease_id, None)  # the id of the lease is used again, for other messages",
        "                pass",
        "tests/redis/test_journal.py",
    ),
    Mutant(
        "a condition on a header is met by every message",
        "rmq_core/envelope/matching.py",
        "        return any(self.header in (name,",
        "        return not message.headers or any(self.header in (name,",
        "tests/unit/test_matching.py",
    ),
    Mutant(
        "a queue is called old while its oldest message is young",
        "rmq_core/console/attention.py",
        "target is not None and age > target",
        "target is not None and age < target",
        "tests/console/test_attention.py",
    ),
]
