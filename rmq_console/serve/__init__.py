"""`rmq serve`: the console, an API, metrics for Prometheus, and what probes and autoscalers ask for, in one process.

Law: it holds nothing that another process needs. Several may run beside each other, and none is needed: queues work
without it. It listens on this machine alone unless it is told how to recognise its users.
"""

from __future__ import annotations
