"""Progress on the terminal: one line for each thing that happened, with the seconds since the start."""

from __future__ import annotations

import time

QUIET_S, REPEAT_S = 5, 30


class Progress:
    """`progress.say("airflow", "published")` prints a line; `watch` prints a topic's text only when it has changed."""

    def __init__(self) -> None:
        self._start = self._last_line = time.monotonic()
        self._last_text: dict[tuple[str, str], str] = {}
        self._last_still = ""

    def say(self, who: str, text: str) -> None:
        """Print one line at once, even into a pipe."""
        self._last_line = time.monotonic()
        print(f"{self._last_line - self._start:7.1f} s  {who:<8} {text}", flush=True)

    def watch(self, who: str, topic: str, text: str) -> None:
        """Print `topic: text` unless it equals the last text of this topic of `who`."""
        if self._last_text.get((who, topic)) != text:
            self._last_text[who, topic] = text
            self.say(who, f"{topic}: {text}")

    def still(self, who: str, text: str) -> None:
        """Print `text` if nothing has been printed for a while: for longer if it repeats the last such text."""
        if time.monotonic() - self._last_line > (REPEAT_S if text == self._last_still else QUIET_S):
            self._last_still = text
            self.say(who, text)
