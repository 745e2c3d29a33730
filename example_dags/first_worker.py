"""The first worker: `rmq run` passes each message of the queue `mails` to `work`, and acks it when that returns.

rmq run first_worker:work --queue mails --discipline leased
rmq publish mails --json-payload '{"to": "jane@example.org"}'
"""

from rmq_core import Message


def work(message: Message) -> None:
    """Handle one message; an exception is logged, and the message is delivered again."""
    print(f"writing to {message.payload['to']}", flush=True)
