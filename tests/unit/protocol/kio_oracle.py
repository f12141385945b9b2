"""kio as the oracle: its messages, its bytes, and the same message as one of our classes."""

import io
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer
from kio.static.primitive import Records

from cluster.model.errors import ErrorCode
from cluster.protocol import messages
from cluster.protocol.api import ApiKey

st.register_type_strategy(Records, st.binary())

SERVED: dict[int, tuple[int, int]] = {
    2: (1, 10),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 6),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 1),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 4),
    36: (0, 2),
    37: (0, 3),
    38: (1, 3),
    39: (1, 2),
    40: (1, 2),
    41: (1, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    71: (0, 0),
    72: (0, 0),
    74: (0, 1),
    75: (0, 0),
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
    ours = converted(messages.REQUESTS[key], theirs)
    if key == ApiKey.CREATE_DELEGATION_TOKEN and type(theirs).__version__ < 3:
        # The only nullable field whose default is not null.
        ours.owner_principal_type = ours.owner_principal_name = ""
    return ours


def response_of(key: int, theirs: Any) -> Any:
    """A kio response as our class."""
    return converted(messages.RESPONSES[key], theirs)


def converted(ours: type[Any], theirs: Any) -> Any:
    """Our class with the fields of kio's message; those that its version lacks are neutral."""
    names = {each.name for each in fields(theirs)}
    hints = get_type_hints(ours)
    assert names <= hints.keys()
    values = {}
    for each in fields(ours):
        hint = hints[each.name]
        if each.name in names:
            values[each.name] = _as_ours(hint, getattr(theirs, each.name))
        elif each.default is MISSING and each.default_factory is MISSING:
            values[each.name] = _neutral(hint)
    return ours(**values)


def _as_ours(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not NoneType)
    if isinstance(value, tuple):
        return tuple(_as_ours(get_args(hint)[0], item) for item in value)
    return converted(hint, value) if is_dataclass(value) and not isinstance(value, hint) else value


def _neutral(hint: Any) -> Any:
    if isinstance(hint, UnionType):
        return None
    if get_origin(hint) is tuple:
        return ()
    return ErrorCode.none if hint is ErrorCode else hint()
