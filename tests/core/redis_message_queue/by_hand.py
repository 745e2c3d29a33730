"""Operations by hand: no Redis, no driver, only a gateway whose answers a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from rmq_core.events import QueueEvent
from rmq_core.redis_message_queue.config import Deduplication, HeartbeatSettings, Logs, PayloadRules, digest_of_content
from rmq_core.redis_message_queue.gateway import BLOCKING, IoMode
from rmq_core.redis_message_queue.part_names import QueueKeyManager
from rmq_core.redis_message_queue.state import QueueState
from rmq_core.redis_message_queue.stored import ClaimedMessage
from rmq_core.twin import stepped

CLAIMED = ClaimedMessage("payload", "job:7.abc")


class Scripted:
    """A foreign gateway whose methods return or raise what was prepared for them; any other call is a mistake."""

    message_visibility_timeout_seconds: int | None = 300
    dead_letter_queue = None

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            verb: list(answer) if isinstance(answer, list) else [answer] for verb, answer in answers.items()
        }
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb not in self.answers:
            raise AttributeError(verb)

        def call(*args: Any, **options: Any) -> Any:
            self.calls.append((verb, *args, *options.values()))
            answer = self.answers[verb].pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call


class Clock:
    """An IoMode in which pausing takes no time; `me` returns `who`, which a test sets."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.who = 1
        self.meanwhile: list[Callable[[], object]] = []

    def io_mode(self) -> IoMode:
        return BLOCKING._replace(pause=self.pause, me=lambda: self.who)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


def body(
    gateway: Any, *, clock: Clock | None = None, told: list[QueueEvent] | None = None, **settings: Any
) -> QueueState:
    """A queue object over a scripted gateway; `told` collects its events."""
    chosen: dict[str, Any] = {
        "deduplication": Deduplication(True, digest_of_content),
        "logs": Logs(0, 0),
        "heartbeat": HeartbeatSettings(None, None),
        "payload": PayloadRules(),
        "strict_envelopes": False,
        "on_event": None if told is None else told.append,
    } | settings
    return QueueState(QueueKeyManager("q"), gateway, (clock or Clock()).io_mode(), **chosen)


def run(operation: Coroutine[Any, Any, Any]) -> Any:
    return stepped(operation)
