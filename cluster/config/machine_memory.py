"""The memory of the machine, and a default that is a share of it."""

import os
from typing import Final

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
SHARE: Final = 16
FLOOR_BYTES: Final = 128 * _MIB
CAP_BYTES: Final = _GIB


def machine_memory_bytes() -> int | None:
    """The machine's physical memory in bytes; None where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def queued_request_bytes(memory_bytes: int | None) -> int:
    """The default of `queued.max.request.bytes`: a sixteenth of the memory, within bounds.

    Small enough that three brokers on one machine leave most of its memory free.
    """
    share_bytes = 0 if memory_bytes is None else memory_bytes // SHARE
    return min(max(share_bytes, FLOOR_BYTES), CAP_BYTES)
