"""Mutation tests: `python -m tools.mutants [number ...]` breaks RMQ in one place at a time and prints which test fails.

`make test` runs a share of the full product. That share is enough if `make test` fails for each mutant. The number of a
mutant is its index in MUTANTS.
"""

from __future__ import annotations

from tools.mutants.disciplines import DISCIPLINES
from tools.mutants.drivers import DRIVERS
from tools.mutants.format_jobs import FORMAT_JOBS
from tools.mutants.format_leased import FORMAT_LEASED
from tools.mutants.format_others import FORMAT_OTHERS
from tools.mutants.integrating import INTEGRATING
from tools.mutants.mutant import Mutant
from tools.mutants.operating import OPERATING
from tools.mutants.scripts import SCRIPTS

MUTANTS = (*DRIVERS, *DISCIPLINES, *SCRIPTS, *FORMAT_LEASED, *FORMAT_JOBS, *FORMAT_OTHERS, *OPERATING, *INTEGRATING)

__all__ = ["MUTANTS", "Mutant"]
