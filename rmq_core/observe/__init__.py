"""What observes a queue. An operation states each fact once; history, journal and `on_event` are sinks of it.

Traces are made in `rmq_core.tracing`, around a whole operation. Metrics are read from the history.
"""
