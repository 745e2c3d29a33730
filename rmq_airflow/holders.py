"""Find out whether the holder of a lease has ended, from the owner string that `rmq_airflow.identity` writes.

Law: importing this module costs nothing. Only a call of `ended` with at least one task's owner imports Airflow and
queries its database.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from importlib import import_module

from rmq_airflow.identity import TaskIdentity

log = logging.getLogger(__name__)


def ended(owners: Collection[str]) -> Mapping[str, tuple[str, bool]]:
    """Return, for the owners that this Airflow knows to have ended, why, and whether the task failed by itself.

    The result is empty if Airflow's database cannot be reached or has no tables. Tools call this function through the
    entry point group `rmq.holders`.
    """
    tasks = [owner for owner in owners if TaskIdentity.read(owner) is not None]
    if not tasks:
        return {}
    try:
        found = import_module("rmq_airflow.plugin.holders").standings(tasks)
    except Exception as error:  # no fault of Airflow may stop the tool that calls this
        log.debug("Airflow does not report which tasks have ended: %s", type(error).__name__)
        return {}
    return {owner: (at.reason, at.failed) for owner, at in found.items() if at.known and at.reason is not None}
