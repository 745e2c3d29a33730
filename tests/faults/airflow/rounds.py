"""In a round, one fault hits tasks in all states at once. Rounds can run concurrently, each with its own DAG runs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.faults import tally
from tests.faults.airflow.faults import Fault
from tests.faults.airflow.scene import STATES, Count, Scene, World


class Round:
    """A fault, and a scene for each state that it can hit."""

    def __init__(self, world: World, fault: Fault) -> None:
        self.world, self.fault = world, fault
        possible = [state for state in STATES if state not in fault.impossible]
        self.scenes = [Scene(world, fault.key, state, timed=fault.timed) for state in possible]

    def begin(self) -> None:
        for scene in self.scenes:
            scene.begin()

    def reach(self) -> None:
        for scene in self.scenes:
            try:
                scene.reach()
            except AssertionError as error:
                error.add_note(f"{scene.name}: {self.world.airflow.rest.tasks(*scene.run)}")
                raise

    def befall(self) -> None:
        tally.count(f"Airflow: {self.fault.name}")
        self.fault.befall(self.world, self.scenes)
        for scene in self.scenes:
            scene.go_on()
        self._over = time.monotonic()

    def count(self) -> dict[str, Count]:
        """Return what the fault cost, by state."""
        counts = {scene.state: scene.count(self._over) for scene in self.scenes}
        for scene in self.scenes:
            scene.close()
        return counts


def play(world: World, faults: Sequence[Fault]) -> dict[str, dict[str, Count]]:
    """Play a round of each fault; return what each cost, by its name."""
    rounds = [Round(world, fault) for fault in faults]
    for step in (Round.begin, Round.reach, Round.befall):
        for one in rounds:
            step(one)
    return {one.fault.name: one.count() for one in rounds}
