"""Apache Airflow provider for RMQ: wait for work, claim it, run it under a lease, ack it in the same task.

Law of this package: only the process that works on messages claims them, a waiter holds no message, and a Spark job
receives only plain strings. Import Airflow's names from `airflow.providers.common.compat.sdk` and RMQ's from
`rmq_core`, nowhere else.
"""
