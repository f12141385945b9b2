"""Bodies of requests that Kafka does not have, and of their answers: msgpack, checked field by
field (docs/decisions/024-why-groups-rebalance.md). Pure.
"""

from enum import Enum
from typing import Generic, TypeVar, cast

import msgpack

from cluster.model.errors import PeerError
from cluster.protocol.peer.field_types import FieldType, Malformed, listed

ContentT = TypeVar("ContentT")


def list_of(item: FieldType, most: int) -> FieldType:
    """A list instead of a tuple: of a record that changes."""
    items = listed(item, most)
    return FieldType(items.what, items.test, f"list({items.value})", items.packed, items.names)


def named(kinds: type[Enum], what: str) -> FieldType:
    """A member of an enumeration, by its name. `what` completes "5 is not ..."."""
    table = f"members_of_{kinds.__name__}"
    return FieldType(
        what,
        f"type({{v}}) is str and {{v}} in {table}",
        f"{table}[{{v}}]",
        "{v}.name",
        {table: dict(kinds.__members__)},
    )


class PackedBody(Generic[ContentT]):
    """Encodes and decodes one type of body."""

    def __init__(self, form: FieldType) -> None:
        """`form` describes values of the type `ContentT`."""
        self._pack = form.packer()
        self._read = form.reader()

    def pack(self, content: ContentT) -> bytes:
        """Encode a body."""
        return bytes(msgpack.packb(self._pack(content)))

    def read(self, body: bytes) -> ContentT:
        """Decode a body. Raises PeerError, which names the malformed field."""
        try:
            return cast("ContentT", self._read(msgpack.unpackb(body)))
        except Malformed as error:
            raise PeerError(f"malformed: {error}") from error
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
            raise PeerError(f"not msgpack: {type(error).__name__}") from error
