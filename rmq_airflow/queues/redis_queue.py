"""`MessageQueueTrigger(scheme="redis+queue", redis_queue=...)` of the provider common.messaging, as our doorbell."""

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
    Makes queues of RMQ available under the scheme ``redis+queue``.

    The other arguments of ``MessageQueueTrigger`` are those of ``RedisQueueDoorbellTrigger``.
    """

    scheme = "redis+queue"

    def trigger_class(self) -> type[BaseEventTrigger]:
        """The doorbell: its events say that there is work, they carry none."""
        from rmq_airflow.triggers.doorbell import RedisQueueDoorbellTrigger  # noqa: PLC0415  loads Redis, when used

        return RedisQueueDoorbellTrigger
