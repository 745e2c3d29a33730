"""`MessageQueueTrigger(scheme="redis+queue", redis_queue=...)` of common.messaging, backed by our doorbell trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

try:
    from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
except ImportError as error:
    raise AirflowOptionalProviderFeatureException(
        "`redis+queue` needs apache-airflow-providers-common-messaging: pip install 'rmq[airflow-messaging]'"
    ) from error

if TYPE_CHECKING:
    from airflow.triggers.base import BaseEventTrigger


class RedisQueueMessageQueueProvider(BaseMessageQueueProvider):
    """
    Make queues of RMQ available under the scheme ``redis+queue``.

    ``MessageQueueTrigger`` passes its other arguments on to ``RedisQueueDoorbellTrigger``.
    """

    scheme = "redis+queue"

    def trigger_class(self) -> type[BaseEventTrigger]:
        """Return the doorbell trigger: its events say that there is work, and contain no message."""
        from rmq_airflow.triggers.watcher import RedisQueueDoorbellTrigger  # loads Redis, when used

        return RedisQueueDoorbellTrigger
