"""Names for the place of windows: a folder, a `file` URI, or one of an object store. Pure.

It needs no package, so commands check their options with it before PyArrow is loaded.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*)://|(file):", re.IGNORECASE)


def scheme_of(place: str) -> str:
    """The scheme of a URI in lower case; empty for the path of a folder."""
    found = _URI.match(place)
    return (found[1] or found[2]).lower() if found else ""


def local_path(place: str) -> Path | None:
    """The local folder of a place, as it is given; None for an object store.

    Raises ValueError, with a text for people, for a `file` URI without a folder.
    """
    scheme = scheme_of(place)
    if not scheme:
        if not place.strip():
            raise ValueError("the place of the windows is empty: give a folder")
        return Path(place)
    if scheme != "file":
        return None
    found = urlsplit(place)
    path = unquote(found.path)
    if found.netloc not in ("", "localhost") or not path.startswith("/"):
        raise ValueError(f"cannot use {place}: give a folder, or file:///FOLDER")
    return Path(path)
