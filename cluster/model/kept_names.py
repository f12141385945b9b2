"""Foreign names as keys: a long name is kept as its beginning and hash. Pure.

Client ids may have 32 KiB, users of OAuth and subjects of log lines even more, and a client may
send any number of them. The number of such names in memory is bounded elsewhere; this bounds the
bytes of each.
"""

import hashlib
from typing import Final

WHOLE_MAX_BYTES: Final = 180
"""A name of at most this many bytes of UTF-8 is kept as it is.

A longer name becomes a text of 185 to 187 bytes: long enough never to equal a name that is kept as
it is, and short enough for a client id's 192 bytes in the stats file."""
_BEGINNING_BYTES: Final = 118
_CERTAINLY_WHOLE: Final = WHOLE_MAX_BYTES // 4
"""A character has at most four bytes."""


def kept_name(name: str) -> str:
    """The name, or `<beginning>...<SHA-256, in hex>` for a long one.

    Call it once for each name, since the result for a long name is long, too.
    """
    if len(name) <= _CERTAINLY_WHOLE:
        return name
    encoded = name.encode("utf-8", "surrogatepass")
    if len(encoded) <= WHOLE_MAX_BYTES:
        return name
    beginning = encoded[:_BEGINNING_BYTES].decode("utf-8", "replace")
    return f"{beginning}...{hashlib.sha256(encoded).hexdigest()}"


def spellings(name: str) -> tuple[str, str]:
    """The texts as which a broker may keep a name that a person gives.

    That is the name itself, if it was copied from a broker's output, or its kept form.
    """
    return name, kept_name(name)


def is_kept_whole(name: str) -> bool:
    """Whether a kept name is the whole name rather than the form of a longer one."""
    return len(name.encode("utf-8", "surrogatepass")) <= WHOLE_MAX_BYTES
