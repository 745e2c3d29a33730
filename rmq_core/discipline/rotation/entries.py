"""Converts ids to entries of the list and back. Pure: no Redis, no clock.

An entry is `<id>` until it is popped, `<id>|<seconds since 1970>` from then on. A new id that itself ends like a
stamped entry is written as `<id>|0`. An id that is not UTF-8 is returned with its bytes escaped, as `os.fsdecode` does.
"""

from __future__ import annotations

import re
from typing import Any

from rmq_core.discipline.rotation.config import RotationConfig
from rmq_core.envelope import codec
from rmq_core.errors import PayloadError, PayloadTooLarge

_STAMPED = re.compile(rb"(?s).+\|(0|\d{10})\Z")


def id_bytes(value: Any, config: RotationConfig) -> bytes:
    """Return the bytes of an id. Raises PayloadError when the value is not a valid id."""
    if not isinstance(value, str | bytes) or not value:
        raise PayloadError(f"an id must be a str or bytes that is not empty, not {value!r:.100}")
    try:
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise PayloadError(f"an id holds a lone surrogate at character {error.start}; it has no UTF-8 form") from None
    if len(data) > config.max_id_bytes:
        raise PayloadTooLarge(f"an id has {len(data)} bytes, max_id_bytes is {config.max_id_bytes}")
    return data


def id_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def new_entry(data: bytes) -> bytes:
    """Return the entry of an id that was not popped yet."""
    return data + b"|0" if _STAMPED.match(data) else data


def stamped_entry(data: bytes, stamp: str) -> bytes:
    """Return the entry of an id that was popped."""
    return b"%b|%b" % (data, stamp.encode())


def envelope(data: bytes, *, late: bool) -> bytes:
    """Return an envelope whose payload is the id, as bytes when it is not UTF-8; a `late` id was delivered before.

    The message id is the id with each space, which would end the field, written as %20, and each % as %25.
    """
    text = data.decode(errors="backslashreplace")
    kind = "s" if text.encode() == data else "b"
    return codec.stamp(0, late) + codec.body(text.replace("%", "%25").replace(" ", "%20"), kind, data)
