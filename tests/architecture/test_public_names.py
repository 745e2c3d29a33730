from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import rmq_core
import rmq_core.asyncio

FACES = [rmq_core, rmq_core.asyncio]
PUBLIC = [(face, name) for face in FACES for name in face.__all__]


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert rmq_core.__version__ == project["version"]


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_all_lists_every_public_name_once_and_each_exists(face: object) -> None:
    listed = list(face.__all__)  # type: ignore[attr-defined]
    assert sorted(set(listed)) == sorted(listed)
    assert all(hasattr(face, name) for name in listed)


def test_the_async_face_has_its_twins_under_the_same_names() -> None:
    # An async twin differs from its sync original; everything else both faces export is one and the same object.
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


def methods(kind: type) -> set[str]:
    return {key for key, value in inspect.getmembers(kind) if not key.startswith("_") and callable(value)}


def own_doc(value: object) -> str | None:
    """The docstring written for `value`; a dataclass without one is given its signature by Python."""
    doc = getattr(value, "__doc__", None)
    return None if doc and doc.startswith(f"{getattr(value, '__name__', '')}(") else doc


def test_errors_have_one_root_and_each_says_what_it_means() -> None:
    errors = importlib.import_module("rmq_core.errors")
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    leaves = [leaf for leaf in classes if leaf.__module__ == errors.__name__]
    assert all(issubclass(leaf, rmq_core.RedisMessageQueueError) for leaf in leaves)
    assert all(own_doc(leaf) for leaf in leaves)
