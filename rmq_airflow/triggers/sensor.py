"""The trigger of the deferrable sensor, which waits for work in the triggerer.

Law: it peeks and never claims, so that two copies of it (a triggerer that was declared dead, a rolling deploy) do no
harm. Its serialised form is plain, deterministic and free of secrets: it contains the id of a connection, not its data.
"""

from __future__ import annotations

from rmq_airflow.waiting import BacklogReport, SensorTrigger, report, tell_fired, wait_for_work
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
