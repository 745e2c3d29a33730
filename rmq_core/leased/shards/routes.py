"""Which operation takes the place of another on a queue in shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rmq_core.admin import configuring, history
from rmq_core.exchange import Exchange
from rmq_core.kernel.transfer import import_progress
from rmq_core.leased import (
    claiming,
    explaining,
    grouping,
    inspecting,
    managing,
    publications,
    publishing,
    settling,
    transfer,
)
from rmq_core.leased.shards import claiming as claims
from rmq_core.leased.shards import inspecting as looks
from rmq_core.leased.shards import managing as changes
from rmq_core.leased.shards import settling as settles
from rmq_core.leased.shards.managing import by_key, everywhere, found_first, refused, total_of, unstaged, waking

_SAME = {
    publishing.publish, publishing.publish_many, inspecting.settled, inspecting.server_time,
    claiming.register_consumer, claiming.renew_consumer, configuring.configure, configuring.settings_of,
    configuring.clients,
    history.history, history.totals, history.marks, history.mark, history.read_journal,
    publications.publication, publications.open_publication, publications.close_publication,
    grouping.groups, grouping.publications, inspecting.shards,
}  # fmt: skip
"""What the first shard does alone, and what chooses shards itself."""
_OTHER: dict[Callable[..., Any], Callable[..., Exchange[Any]]] = {
    claiming.claim: claims.claim,
    claiming.claim_next: claims.claim_next,
    claiming.adopt: claims.adopt,
    claiming.join: claims.join,
    settling.extend: settles.extend,
    settling.extend_all: settles.extend_all,
    settling.ack: settles.ack,
    settling.nack: settles.nack,
    settling.release: settles.release,
    settling.reject: settles.reject,
    inspecting.read: looks.read,
    inspecting.read_arrow: looks.read_arrow,
    inspecting.backlog: looks.backlog,
    inspecting.stats: looks.stats,
    inspecting.lease_info: looks.lease_info,
    inspecting.leases: looks.leases,
    inspecting.peek: looks.peek,
    inspecting.dead_letters: looks.dead_letters,
    inspecting.browse: looks.browse,
    inspecting.browse_lease: looks.browse_lease,
    managing.release_lease: waking(changes.release_lease),
    managing.release_leases: waking(changes.release_leases),
    managing.expire_lease: waking(changes.expire_lease),
    managing.expire_leases: waking(changes.expire_leases),
    managing.release_unanswered: changes.release_unanswered,
    managing.search: changes.search,
    managing.dead_reasons: changes.dead_reasons,
    managing.redrive: waking(changes.redrive),
    managing.redrive_some: waking(total_of(managing.redrive_some)),
    managing.discard: total_of(managing.discard),
    managing.purge: total_of(managing.purge),
    managing.pause: everywhere(managing.pause),
    managing.resume: waking(everywhere(managing.resume)),
    managing.edit: found_first(managing.edit),
    managing.run_now: waking(found_first(managing.run_now)),
    managing.cancel: found_first(managing.cancel),
    managing.dead_letter: found_first(managing.dead_letter),
    managing.unregister: changes.unregister,
    managing.forget: by_key(managing.forget),
    managing.remembered: by_key(managing.remembered),
    explaining.why: found_first(explaining.why, lambda found: found.state != "gone"),
    transfer.export_page: changes.export_page,
    **dict.fromkeys(
        (transfer.import_chunk, import_progress),
        refused("import", "import into a new queue, and configure its shards then"),
    ),
    **dict.fromkeys((publishing.stage, publishing.publish_staged, publishing.drop_staged), unstaged),
}


def route(operation: Callable[..., Exchange[Any]]) -> Callable[..., Exchange[Any]]:
    """Return the operation for a queue in shards; one that raises ConfigurationError for what that cannot do."""
    return operation if operation in _SAME else _OTHER.get(operation) or refused(operation.__name__)
