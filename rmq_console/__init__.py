"""The console: pages and an API that show the queues of one or more servers and operate them.

Airflow's plugin and `rmq serve` serve the same application. A `Host` supplies what differs: who the users are and what
they may do, the servers, the audit log, and who holds a lease.

Law: importing `rmq_core` imports none of this, which needs FastAPI. No user, address or lease token is known here.
"""

from __future__ import annotations

from rmq_console.app import answer_errors, create_app
from rmq_console.host import UNKNOWN, Access, AuditLog, Holder, Host, Places, Right, ServedPlace, Words

__all__ = [
    "UNKNOWN",
    "Access",
    "AuditLog",
    "Holder",
    "Host",
    "Places",
    "Right",
    "ServedPlace",
    "Words",
    "answer_errors",
    "create_app",
]
