"""Count the direct children of each package, modules and subpackages, and the imports between them.

`python tools/rooms.py [package ...]`. In the code a child is a room, and an arrow says that one room imports from
another, however often; imports for type checkers count. The package's own `__init__` does not count. Smaller numbers
mean that a maintainer has to know less before a change.
"""

from __future__ import annotations

import sys

import grimp

PACKAGES = ("rmq_core", "rmq_cli", "rmq_console", "rmq_airflow", "rmq_dagster", "rmq_spark")


def rooms_of(graph: grimp.ImportGraph, package: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the rooms of a package, and its arrows as pairs of the importing and the imported room."""
    rooms = graph.find_children(package)
    room_of = {module: room for room in rooms for module in {room, *graph.find_descendants(room)}}
    arrows = {
        (room_of[module], room_of[imported])
        for module in room_of
        for imported in graph.find_modules_directly_imported_by(module) & room_of.keys()
    }
    return rooms, {(importer, imported) for importer, imported in arrows if importer != imported}


def main() -> None:
    packages = sys.argv[1:] or PACKAGES
    graph = grimp.build_graph(*packages, cache_dir=None)
    for package in packages:
        rooms, arrows = rooms_of(graph, package)
        print(f"{package}: {len(rooms)} modules and subpackages, {len(arrows)} imports between them")


if __name__ == "__main__":
    main()
