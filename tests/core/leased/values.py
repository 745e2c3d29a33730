"""The values of the model: messages and leases, as plain mutable objects."""

from __future__ import annotations

from dataclasses import dataclass, field

Mark = tuple[int, int, int, int]
Shape = tuple[str, int, tuple[str, ...], Mark | None]
NO_MARK = (0, 0, 0, 0)


@dataclass(eq=False)
class Item:
    """A message: deliveries as stored, which is without the present one.

    mark: in how many leases it failed together with others, its isolated group, how many of that a claim may take, and
    how many deliveries it is not blamed for.
    """

    id: str
    deliveries: int = 0
    history: list[str] = field(default_factory=list)
    mark: Mark = NO_MARK

    @property
    def group(self) -> int:
        return self.mark[1]

    @property
    def blamed(self) -> int:
        return self.deliveries - self.mark[3]

    @property
    def shape(self) -> Shape:
        return self.id, self.deliveries, tuple(self.history), None if self.mark == NO_MARK else self.mark


@dataclass(eq=False)
class Held:
    """A lease. `late` is its position among the expired ones, None while it runs."""

    id: str
    owner: str
    items: list[Item]
    token: str = ""
    fence: int = 0
    takeovers: int = 0
    returned: int = 0
    settled: set[int] = field(default_factory=set)
    late: int | None = None

    @property
    def open(self) -> list[Item]:
        return [item for index, item in enumerate(self.items) if index not in self.settled]
