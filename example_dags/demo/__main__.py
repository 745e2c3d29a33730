"""`python -m example_dags.demo [--crash] [--cluster] [--serve]`: the main job in both orchestrators, groups; check."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from example_dags.demo import airflow_side, dagster_side, serving, turns
from example_dags.demo.outcome import Outcome, summary, table_of_shards
from example_dags.demo.place import Place
from example_dags.demo.processes import ChildFailed
from example_dags.demo.progress import Progress
from example_dags.demo.turns import Turns


def main() -> int:
    """Return 0 if all figures are as expected, 1 if not or if a process failed, 130 if interrupted."""
    options = _options()
    for polite in (signal.SIGINT, signal.SIGTERM):  # a background shell ignores SIGINT, and children would inherit that
        signal.signal(polite, signal.default_int_handler)
    place = Place(options.directory, cluster=options.cluster, journal=options.serve)
    progress = Progress()
    place.clear()
    try:
        place.start_redis()
        outcomes = [side.run(place, progress, crash=options.crash) for side in (airflow_side, dagster_side)]
        claimed = turns.run(place, progress)
        code = judge(place, outcomes, claimed, crash=options.crash)
        if options.serve:
            serving.serve(place, {"Airflow": airflow_side.QUEUE, "Dagster": dagster_side.QUEUE})
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything the demo started has been stopped", file=sys.stderr)
        return 130
    finally:
        place.stop_redis()
    return code


def judge(place: Place, outcomes: list[Outcome], claimed: Turns, *, crash: bool) -> int:
    """Print the tables, and which figures are wrong; return 0 if there are none, else 1."""
    print(summary(outcomes))
    print(claimed.summary())
    if place.cluster:
        print(table_of_shards(outcomes, place.cluster.node_of))
    wrong = [mismatch for outcome in (*outcomes, claimed) for mismatch in outcome.mismatches()]
    if crash:
        wrong += [f"{outcome.orchestrator}: no driver was killed" for outcome in outcomes if not outcome.crash]
    if place.cluster:
        wrong += [mismatch for outcome in outcomes for mismatch in outcome.misplaced()]
    for mismatch in wrong:
        print(f"WRONG: {mismatch}", file=sys.stderr)
    if not wrong:
        print("All figures are as expected: every item was claimed and acked, and every row was written once.")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m example_dags.demo", description=__doc__)
    parser.add_argument("--crash", action="store_true", help="kill the Spark driver with SIGKILL in mid-job")
    about = "on a Redis Cluster of three nodes, with the main job's queues in shards"
    parser.add_argument("--cluster", action="store_true", help=about)
    about = "then serve the console on the demo's queues until Ctrl-C, with a journal of what became of each message"
    parser.add_argument("--serve", action="store_true", help=about)
    about = "the directory of all files of the demo; its content is deleted first"
    parser.add_argument("--directory", type=Path, default=Path("build/demo"), help=about)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
