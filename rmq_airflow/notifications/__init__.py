"""Notifiers: what the callbacks of tasks, DAGs and deadlines may call."""
