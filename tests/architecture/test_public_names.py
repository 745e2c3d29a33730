from __future__ import annotations

import importlib
import inspect

import pytest

import rmq_core
import rmq_core.asyncio

FACES = [rmq_core, rmq_core.asyncio]
MODULES = ("jobs", "reliable", "rotation", "streams", "orchestrate")
PUBLIC = [(face, name) for face in FACES for name in face.__all__]


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_all_lists_every_public_name_once_and_each_exists(face: object) -> None:
    listed = list(face.__all__)  # type: ignore[attr-defined]
    assert sorted(set(listed)) == sorted(listed)
    assert all(hasattr(face, name) for name in listed)


def test_the_asyncio_queue_has_the_same_methods_as_the_blocking_one() -> None:
    # An asyncio class differs from the blocking one; all other names of both packages are the same object.
    assert rmq_core.asyncio.LeasedQueue is not rmq_core.LeasedQueue
    assert methods(rmq_core.asyncio.LeasedQueue) == methods(rmq_core.LeasedQueue)


@pytest.mark.parametrize(("face", "name"), PUBLIC, ids=[f"{face.__name__}.{name}" for face, name in PUBLIC])
def test_a_public_name_is_documented_with_its_methods(face: object, name: str) -> None:
    value = getattr(face, name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return
    assert own_doc(value)
    if inspect.isclass(value):
        undocumented = [key for key in methods(value) if not inspect.getdoc(getattr(value, key))]
        assert undocumented == []


@pytest.mark.parametrize("module", MODULES)
def test_a_name_of_a_module_is_documented(module: str) -> None:
    found = importlib.import_module(f"rmq_core.{module}")
    classes = [getattr(found, name) for name in module_names(module) if inspect.isclass(getattr(found, name))]
    assert [value for value in classes if not own_doc(value)] == []


def module_names(module: str) -> list[str]:
    names: list[str] = importlib.import_module(f"rmq_core.{module}").__all__
    return names


def methods(kind: type) -> set[str]:
    return {key for key, value in inspect.getmembers(kind) if not key.startswith("_") and callable(value)}


def own_doc(value: object) -> str | None:
    """Return the docstring written for `value`; Python gives a dataclass without one its signature."""
    doc = getattr(value, "__doc__", None)
    return None if doc and doc.startswith(f"{getattr(value, '__name__', '')}(") else doc


def test_errors_have_one_root_and_a_documented_meaning() -> None:
    errors = importlib.import_module("rmq_core.errors")
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    leaves = [leaf for leaf in classes if leaf.__module__ == errors.__name__]
    assert all(issubclass(leaf, rmq_core.RedisMessageQueueError) for leaf in leaves)
    assert all(own_doc(leaf) for leaf in leaves)
