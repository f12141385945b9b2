"""Foreign names as keys: a long one is kept by its beginning and its hash. Pure.

Client ids may have 32 KiB, users of OAuth and subjects of log lines as much and more, and whoever
sends them chooses as many as they like. What is remembered by such a name is bounded in number;
this bounds the bytes of each.
"""

import hashlib
from typing import Final

WHOLE_MAX_BYTES: Final = 180
"""A name of no more bytes of UTF-8 is kept as it is. What stands for a longer one has 185 to 187
bytes: more than this, so that it is never equal to a name that is kept as it is, and few enough for
a client id's 192 bytes in the stats file."""
_BEGINNING_BYTES: Final = 118
_CERTAINLY_WHOLE: Final = WHOLE_MAX_BYTES // 4
"""A character has four bytes at the most."""


def kept_name(name: str) -> str:
    """The name, or what stands for it where it is long: `<beginning>...<SHA-256, in hex>`.

    To be called once for each name: what stands for a long one is long, too.
    """
    if len(name) <= _CERTAINLY_WHOLE:
        return name
    encoded = name.encode("utf-8", "surrogatepass")
    if len(encoded) <= WHOLE_MAX_BYTES:
        return name
    beginning = encoded[:_BEGINNING_BYTES].decode("utf-8", "replace")
    return f"{beginning}...{hashlib.sha256(encoded).hexdigest()}"


def spellings(name: str) -> tuple[str, str]:
    """As what a broker may keep a name that a person gives: the name, if it was copied from what a
    broker shows, or what stands for it.
    """
    return name, kept_name(name)


def is_kept_whole(name: str) -> bool:
    """Whether a name that was kept is the whole name, and not what stands for a longer one."""
    return len(name.encode("utf-8", "surrogatepass")) <= WHOLE_MAX_BYTES
