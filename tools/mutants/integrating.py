"""Mutants of what ties RMQ to Spark, Airflow and Dagster: streams, tables, hand-overs, versions, rights."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

SECRETS = "tests/unit/work/test_secret_references.py"
HANDOVER = "tests/unit/work/test_handover_transports.py"
STREAM_4_0 = "tests/spark/test_stream_spark_4_0.py"
TABLES = "tests/unit/spark/test_tables.py"

INTEGRATING = [
    Mutant(
        "an error shows what may be a secret",
        "rmq_core/work/secret_references.py",
        'f"{name}: not a reference to a secret,',
        'f"{name}: {reference} is not a reference to a secret,',
        f"{SECRETS}::test_what_is_no_reference_may_be_a_secret_and_is_not_shown",
    ),
    Mutant(
        "an empty secret is taken",
        "rmq_core/work/secret_references.py",
        "    if not secret:\n",
        "    if secret is None:\n",
        f"{SECRETS}::test_an_empty_secret_is_refused",
    ),
    Mutant(
        "a password in place of its reference is handed over",
        "rmq_core/work/handover.py",
        "None if reference == given.get(name) else reference",
        "reference",
        f"{HANDOVER}::test_a_password_that_looks_like_a_reference_is_refused_and_not_shown",
    ),
    Mutant(
        "a credential without a reference is left out",
        "rmq_core/work/handover.py",
        "if missing := given.keys() - secrets.keys() - {*_PLAIN}:",
        "if missing := given.keys() - given.keys():",
        f"{HANDOVER}::test_a_credential_without_a_reference_is_refused_and_not_shown",
    ),
    Mutant(
        "places that hand over different leases are not compared",
        "rmq_core/work/handover.py",
        "        _check_same(found)\n",
        "",
        f"{HANDOVER}::test_places_that_disagree_are_an_error_that_names_them",
    ),
    Mutant(
        "braces in parameters are left to Jinja",
        "rmq_core/work/handover_transports.py",
        'return text.replace("{{", "{\\\\u007b").replace("}}", "}\\\\u007d")',
        "return text",
        f"{HANDOVER}::test_parameters_have_no_braces_that_yarn_databricks_or_jinja_replace",
    ),
    Mutant(
        "Spark 4.0: a batch that was only claimed is acked",
        "rmq_spark/stream/spark_4_0.py",
        "        self._ended = self._end == begin\n",
        "        self._ended = True\n",
        f"{STREAM_4_0}::test_a_batch_that_is_asked_for_twice_before_it_is_planned_is_not_acked",
    ),
    Mutant(
        "Spark 4.0: a planned batch is never acked",
        "rmq_spark/stream/spark_4_0.py",
        "            self._end, self._ended = until, True\n",
        "            self._end, self._ended = until, False\n",
        f"{STREAM_4_0}::test_a_batch_that_is_asked_for_twice_before_it_is_planned_is_not_acked",
    ),
    Mutant(
        "Spark 4.0: a refused query keeps its claim",
        "rmq_spark/stream/spark_4_0.py",
        "        if claimed.seq:\n",
        "        if not claimed.seq:\n",
        f"{STREAM_4_0}::test_a_query_that_claims_before_it_names_its_checkpoint_is_refused_and_keeps_nothing",
    ),
    Mutant(
        "a writer that lost the race does not look again",
        "rmq_spark/tables/log.py",
        "    for number in range(TRIES):\n        if _found(log, names, in_doubt):\n",
        "    for number in range(TRIES):\n        if number > TRIES and _found(log, names, in_doubt):\n",
        f"{TABLES}::test_of_two_writers_that_looked_before_either_wrote_the_second_appends_nothing",
    ),
    Mutant(
        "a commit whose answer was lost counts as failed",
        "rmq_spark/tables/log.py",
        "        if log.remembers(names):\n            return\n",
        "",
        f"{TABLES}::test_a_batch_is_in_doubt_from_its_commit_until_the_log_says_it_is_not_there",
    ),
    Mutant(
        "a block that fails after its commit nacks",
        "rmq_spark/tables/appending.py",
        "        batch.verdicts.keep = keep\n",
        "        batch.verdicts.keep = False\n",
        "tests/spark/test_append_once.py::test_a_block_that_fails_after_its_commit_keeps_the_lease_although_its_policy_nacks",
    ),
    Mutant(
        "an option for numbers gives all rights",
        "rmq_airflow/plugin/access.py",
        'return right == "numbers" and _open_to(user, team)',
        "return _open_to(user, team)",
        "tests/airflow/plugin/test_rights.py::test_the_roles_of_the_simple_auth_manager_have_their_rights",
    ),
    Mutant(
        "a trigger that ends its task reports more than the tasks downstream take",
        "rmq_airflow/waiting.py",
        "dict(bounded(report, self.max_messages))",
        "dict(report)",
        "tests/airflow/test_end_in_trigger.py::test_the_trigger_ends_the_task_with_the_report_that_a_worker_would_return",
    ),
    Mutant(
        "a paused queue has work",
        "rmq_dagster/versions.py",
        "None if stats.paused else _work(queue)",
        "_work(queue)",
        "tests/dagster/test_automation.py::test_a_paused_queue_has_no_work",
    ),
    Mutant(
        "a message that came back is no new work",
        "rmq_dagster/versions.py",
        'f"{message.id}:{message.deliveries}"',
        'f"{message.id}"',
        "tests/dagster/test_automation.py::test_work_is_noticed_when_no_client_counts",
    ),
    Mutant(
        "a step acks what no driver adopted",
        "rmq_dagster/submitting.py",
        "        if not ack_unadopted:\n",
        "        if ack_unadopted:\n",
        "tests/dagster/test_submitted.py::test_a_driver_that_never_adopts_is_no_success",
    ),
]
