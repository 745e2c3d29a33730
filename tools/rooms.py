"""Count the rooms of each package, its modules and folders, and the arrows between them: `python tools/rooms.py`.

An arrow goes from a room to another that it imports from, however often; imports for type checkers count. A package
itself (its `__init__`) is no room. Fewer of both are less to know before one can change something.
"""

from __future__ import annotations

import sys

import grimp

PACKAGES = ("rmq_core", "rmq_airflow", "rmq_dagster", "rmq_spark")


def rooms_of(graph: grimp.ImportGraph, package: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The rooms of a package, and the arrows: who imports, and what."""
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
        print(f"{package}: {len(rooms)} rooms, {len(arrows)} arrows")


if __name__ == "__main__":
    main()
