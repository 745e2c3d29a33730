"""Who holds a lease, and whether that holder has ended: the owner that `rmq_airflow.identity` wrote, read back.

Law: importing this costs nothing. Airflow is imported, and its database asked, by the first call of `ended` that has
a task's owner to ask about.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from importlib import import_module

from rmq_airflow.identity import TaskIdentity

log = logging.getLogger(__name__)


def ended(owners: Collection[str]) -> Mapping[str, str]:
    """Why the holder of a lease has ended, by owner, for those owners of which this Airflow knows that they have.

    Empty when Airflow's database cannot be reached or has no tables. For tools: an entry point of `rmq.holders`.
    """
    tasks = [owner for owner in owners if TaskIdentity.read(owner) is not None]
    if not tasks:
        return {}
    try:
        found = import_module("rmq_airflow.plugin.instances").standings(tasks)
    except Exception as error:  # noqa: BLE001  whatever is wrong with Airflow here, the rest of a tool goes on
        log.debug("Airflow cannot tell which tasks have ended: %s", type(error).__name__)
        return {}
    return {owner: at.reason for owner, at in found.items() if at.known and at.reason is not None}
