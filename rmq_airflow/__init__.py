"""Apache Airflow provider for RMQ: wait for work, claim it, run it under a lease, ack it in the same task.

Law of this package: it claims only in the process that works, waiting holds nothing, and only plain strings cross to a
Spark job. Airflow's names come from `airflow.providers.common.compat.sdk`, RMQ's from `rmq_core`, nothing else.
"""
