"""How much memory the machine has, and what share of it is a default."""

import os
from typing import Final

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
SHARE: Final = 16
FLOOR_BYTES: Final = 128 * _MIB
CAP_BYTES: Final = _GIB


def machine_memory_bytes() -> int | None:
    """All of the machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def queued_request_bytes(memory_bytes: int | None) -> int:
    """The default of `queued.max.request.bytes`: a sixteenth of the memory, within bounds.

    Several brokers share one machine, so that three of them leave most of it alone.
    """
    share_bytes = 0 if memory_bytes is None else memory_bytes // SHARE
    return min(max(share_bytes, FLOOR_BYTES), CAP_BYTES)
