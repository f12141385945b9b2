"""Functions for a message that no API has, or of one with something changed, made on the spot."""

from datetime import datetime, timedelta
from struct import Struct, pack, unpack_from
from typing import Any
from uuid import UUID

from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol import messages, reader, writer
from cluster.protocol.codegen.definitions import WireStruct
from cluster.protocol.codegen.functions import ModuleNames
from cluster.protocol.codegen.modules import functions_source


def generated(
    kind: str, message: WireStruct, versions: range, first_flexible: int, **names: Any
) -> Any:
    """`read_request` or `write_request` (`kind` tells) with other things in place of `names`."""
    module = ModuleNames()
    source = functions_source(kind, "request", message, versions, first_flexible, module)
    constants = "\n".join(f"{name} = {text}" for name, text in module.packers.items())
    namespace = {
        **vars(messages),
        **vars(reader),
        **vars(writer),
        "ErrorCode": ErrorCode,
        "PeerError": PeerError,
        "Struct": Struct,
        "UUID": UUID,
        "datetime": datetime,
        "pack": pack,
        "timedelta": timedelta,
        "unpack_from": unpack_from,
        **names,
    }
    exec(f"{constants}\n{source}", namespace)
    return namespace[f"{kind}_request"]
