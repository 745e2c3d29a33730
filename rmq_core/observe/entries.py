"""Entries of the journal as they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

_MOST_IDS = 1000
_SAME = "\t"


def lines_of(event: str, ids: Sequence[str], **about: object) -> list[str]:
    """Return the entries of an event about these messages, as the script takes them. about: by the names of fields."""
    return list(lines(event, ids, {name[0]: str(value) for name, value in about.items()}))


def lines(event: str, ids: Sequence[str], fields: Mapping[str, str]) -> Iterator[str]:
    """Yield entries of at most 1,000 messages; fields without a value are left out."""
    for lo in range(0, max(len(ids), 1), _MOST_IDS):
        entry = {"e": event, **fields, "i": packed(ids[lo : lo + _MOST_IDS])}
        yield json.dumps([part for pair in entry.items() if pair[1] for part in pair])


def packed(ids: Iterable[str]) -> str:
    """Return ids as one text. Of an id that is like the one before it up to the last `-`, the rest follows a tab."""
    words, prefix = list[str](), ""
    for each in ids:
        begin, dash, end = each.rpartition("-")
        words.append(f"{_SAME}-{end}" if dash and begin == prefix else each)
        prefix = begin
    return " ".join(words)


def unpacked(text: str) -> Iterator[str]:
    """Yield the ids of a packed text."""
    prefix = ""
    for word in text.split(" ") if text else ():
        whole_id = f"{prefix}{word[1:]}" if word.startswith(_SAME) else word
        prefix = whole_id.rpartition("-")[0]
        yield whole_id
