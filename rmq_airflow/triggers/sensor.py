"""The triggers of the deferrable sensor, which wait for work, or for the end of a publication, in the triggerer.

Law: they peek and never claim, so that two copies of one (a triggerer that was declared dead, a rolling deploy) do no
harm. Their serialised form is plain, deterministic and free of secrets: it has the id of a connection, not its data.
"""

from __future__ import annotations

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.waiting import (
    BacklogReport,
    PublicationReport,
    SensorTrigger,
    report,
    report_of,
    tell_ended,
    tell_fired,
    wait_for_publication,
    wait_for_work,
)
from rmq_core.orchestrate import Threshold


class RedisQueueTrigger(SensorTrigger):
    """
    Fire once, when a queue holds enough work.

    :param redis_queue: the queue to watch
    :param min_messages: the trigger fires when this number of messages is ready
    :param max_age: the trigger also fires when the oldest ready message is this many seconds old
    :param redis_queue_conn_id: connection of type ``redis_queue``
    :param end_task: end the task in the triggerer; otherwise a worker resumes it
    :param max_messages: report at most this many to the tasks downstream, if the trigger ends the task
    :param groups: only messages of these groups count
    """

    async def _wait(self) -> BacklogReport:
        enough = Threshold(self.min_messages, self.max_age)
        backlog = await wait_for_work(self.redis_queue_conn_id, self.redis_queue, self.log, enough, self.groups)
        tell_fired("sensor", self.redis_queue, backlog)
        return report(self.redis_queue, backlog)


class RedisQueuePublicationTrigger(SensorTrigger):
    """
    Fire once, when all messages of a publication are done.

    :param redis_queue: the queue to watch
    :param publication: the name under which the messages were published
    :param redis_queue_conn_id: connection of type ``redis_queue``
    :param end_task: end the task in the triggerer; otherwise a worker resumes it
    """

    def __init__(
        self,
        redis_queue: str,
        publication: str,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        *,
        end_task: bool = False,
    ) -> None:
        super().__init__(redis_queue, redis_queue_conn_id=redis_queue_conn_id, end_task=end_task)
        self.publication = publication

    async def _wait(self) -> PublicationReport:
        found = await wait_for_publication(self.redis_queue_conn_id, self.redis_queue, self.log, self.publication)
        tell_ended(self.redis_queue, found)
        return report_of(self.redis_queue, found)
