"""Ctrl+C lets the worker finish what it has in hand."""

from __future__ import annotations

import os
import signal

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.interrupt_handler import GracefulInterruptHandler

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
interrupt = GracefulInterruptHandler(verbose=False)
letters = RedisMessageQueue("letters", client=client, interrupt=interrupt)
for number in range(3):
    letters.publish(f"letter {number}")

sorted_letters = []
while not interrupt.is_interrupted():
    with letters.process_message() as letter:
        if letter == "letter 1":
            os.kill(os.getpid(), signal.SIGINT)
        sorted_letters.append(letter)

assert sorted_letters == ["letter 0", "letter 1"]
client.close()
