"""`rmq serve`: what it tells, whom it tells it, and what attackers get."""

from __future__ import annotations
