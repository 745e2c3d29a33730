"""The queue logs completed and failed messages, and still raises the error of a failed handler."""

from __future__ import annotations

from contextlib import suppress

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
mails = RedisMessageQueue("mails", client=client, enable_completed_queue=True, enable_failed_queue=True)
for recipient in ("a@example.org", "nobody", "b@example.org"):
    mails.publish(recipient)

failures = []
for _ in range(3):
    with suppress(LookupError), mails.process_message() as address:
        if "@" not in str(address):
            failures.append(address)
            raise LookupError(address)

assert failures == ["nobody"]
client.close()
