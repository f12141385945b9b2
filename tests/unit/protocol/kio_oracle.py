"""kio as the oracle: its messages, its bytes, and the same message as one of our classes."""

import io
from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer
from kio.static.primitive import Records

from cluster.protocol import messages
from cluster.protocol.layout import fields_at

st.register_type_strategy(Records, st.binary())

SERVED: dict[int, tuple[int, int]] = {
    2: (1, 10),
    3: (0, 13),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    22: (0, 5),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    37: (0, 3),
    44: (0, 1),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    60: (0, 2),
}
"""Versions of each API that has version-free messages."""

EVERY_VERSION = [
    (key, version) for key, (first, last) in SERVED.items() for version in range(first, last + 1)
]


def kio_bytes(message: Any) -> bytes:
    """The body of a message as kio writes it."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def kio_frame(message: Any, correlation_id: int) -> bytes:
    """A whole response frame as kio writes it."""
    out = io.BytesIO()
    header = type(message).__header_schema__
    entity_writer(header)(out, header(correlation_id=correlation_id))
    entity_writer(type(message))(out, message)
    return len(out.getvalue()).to_bytes(4, "big") + out.getvalue()


def requests(key: int, version: int) -> st.SearchStrategy[Any]:
    """kio's requests of one version."""
    return st.from_type(load_request_schema(key, version))


def responses(key: int, version: int) -> st.SearchStrategy[Any]:
    """kio's responses of one version."""
    return st.from_type(load_response_schema(key, version))


def request_of(key: int, theirs: Any) -> Any:
    """A kio request as our class."""
    return converted(messages.REQUESTS[key], theirs)


def response_of(key: int, theirs: Any) -> Any:
    """A kio response as our class."""
    return converted(messages.RESPONSES[key], theirs)


def converted(ours: type[Any], theirs: Any) -> Any:
    """Our class with the fields of kio's message; those that its version lacks are neutral."""
    layout = {each.name: each for each in fields_at(ours, int(type(theirs).__version__))}
    names = {each.name for each in fields(theirs)}
    assert names == {name for name, each in layout.items() if each.is_carried}
    values = {}
    for name, each in layout.items():
        value = getattr(theirs, name) if name in names else each.default
        if isinstance(value, tuple) and each.struct is not None:
            value = tuple(converted(each.struct, item) for item in value)
        elif each.struct is not None and is_dataclass(value) and type(value) is not each.struct:
            value = converted(each.struct, value)
        values[name] = value
    return ours(**values)
