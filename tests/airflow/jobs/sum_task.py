"""A task of Airflow in its own environment: `sum_task.py APPLICATION RESULT`; prints the operator's report."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator

task = RedisQueueSparkSubmitOperator(
    task_id="spark", redis_queue="numbers", application=sys.argv[1], application_args=[sys.argv[2]]
)
names = {"dag_id": "dag", "run_id": "run", "task_id": "spark", "map_index": -1}
ti = SimpleNamespace(**names, try_number=1, max_tries=0, task=task, stats_tags={})
report = task.execute({"ti": ti, "task": task})
print(json.dumps(report))
