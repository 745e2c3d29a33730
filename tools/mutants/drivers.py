"""Mutants of the drivers, their resends and heartbeats."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

DRIVERS = [
    Mutant(
        "async driver never resends",
        "rmq_core/exchange/aio.py",
        "            if patience.once or hopeless(error):\n                raise\n"
        "            await self._recover(error)\n",
        "            raise\n            await self._recover(error)\n",
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
        "rmq_core/exchange/aio_pools.py",
        "            await self._release(pool, connection)\n            raise asyncio.CancelledError\n",
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
        "rmq_core/exchange/aio_pools.py",
        "return self.loop is asyncio.get_running_loop() and",
        "return",
        "tests/unit/exchange/test_drivers.py::test_a_connection_is_not_used_in_another_event_loop_than_its_own",
    ),
    Mutant(
        "async driver has no timeout",
        "rmq_core/exchange/aio_pools.py",
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
        "sync driver never resends",
        "rmq_core/exchange/sync.py",
        "            if patience.once or hopeless(error):\n                raise\n            self._recover(error)\n",
        "            raise\n            self._recover(error)\n",
        "tests/unit/exchange/test_drivers.py::test_a_call_whose_reply_was_lost_is_resent_unchanged",
    ),
    Mutant(
        "sync driver in a forked child uses the parent's connections",
        "rmq_core/exchange/pools.py",
        "if self.pid != process.id:\n            self.begin",
        "if False:\n            self.begin",
        "tests/redis/test_leased_clients.py::test_a_forked_child_and_its_parent_do_not_get_in_each_others_way",
    ),
    Mutant(
        "sync driver on a cluster sends to the default node",
        "rmq_core/exchange/sync.py",
        "self.client.nodes_manager.get_node_from_slot(self.client.keyslot(self._key))",
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
        "        try:\n            return send(first)\n        except RETRYABLE as error:\n            self._recover(error)\n            raise",  # noqa: E501
        "        try:\n            return send(first)\n        except RETRYABLE as error:\n            self._recover(error)\n            return send(first)",  # noqa: E501
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
]
