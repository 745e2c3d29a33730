"""A figure is the median of its rounds, and a target states whether and how far it is met."""

from __future__ import annotations

import pytest

from benchmarks.figures import Spread, percentile
from benchmarks.targets import REASONS, TARGETS, at_least, at_most


def test_a_spread_is_a_median_with_its_quartiles() -> None:
    assert Spread.of([5, 1, 3, 2, 4]) == Spread(3, 2, 4)


def test_the_spread_of_one_value_is_that_value() -> None:
    assert Spread.of([0.5]) == Spread(0.5, 0.5, 0.5)


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0


def test_percentiles_interpolate_between_neighbours() -> None:
    assert percentile([float(value) for value in range(101)], 99) == pytest.approx(99)


@pytest.mark.parametrize(("value", "met", "share"), [(0.8, True, 1.0), (0.9, True, 1.125), (0.6, False, 0.75)])
def test_a_lower_bound_is_reached_from_above(value: float, met: object, share: float) -> None:
    target = at_least(0.8)
    assert target.met(value) is met
    assert target.share(value) == pytest.approx(share)


@pytest.mark.parametrize(("value", "met", "share"), [(480, True, 1.0), (240, True, 2.0), (600, False, 0.8)])
def test_an_upper_bound_is_reached_from_below(value: float, met: object, share: float) -> None:
    target = at_most(480)
    assert target.met(value) is met
    assert target.share(value) == pytest.approx(share)


def test_a_negative_value_has_an_infinite_share_of_an_upper_bound() -> None:
    assert at_most(15).share(-0.5) == float("inf")


def test_every_reason_belongs_to_a_target() -> None:
    assert set(REASONS) <= set(TARGETS)
