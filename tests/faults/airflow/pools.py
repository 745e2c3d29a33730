"""What the DAGs of `dags/pooled.py` and the test of them share."""

from __future__ import annotations

POOL, SLOTS = "printers", 2
SHARE = 10
RUNS, TASKS = 3, 2
WORK_S = 5
