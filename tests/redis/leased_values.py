"""What the model is made of: messages and leases, as plain mutable values."""

from __future__ import annotations

from dataclasses import dataclass, field

Shape = tuple[str, int, tuple[str, ...]]


@dataclass(eq=False)
class Item:
    """A message: deliveries as stored, which is without the present one."""

    id: str
    deliveries: int = 0
    history: list[str] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        return self.id, self.deliveries, tuple(self.history)


@dataclass(eq=False)
class Held:
    """A lease. `late` is its place among the expired ones, None while it runs."""

    id: str
    owner: str
    items: list[Item]
    token: str = ""
    takeovers: int = 0
    returned: int = 0
    settled: set[int] = field(default_factory=set)
    late: int | None = None

    @property
    def open(self) -> list[Item]:
        return [item for index, item in enumerate(self.items) if index not in self.settled]
