"""Fetches a small document from an http, https or file URL; blocking."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

_SCHEMES: Final = ("http", "https", "file")
_TIMEOUT_S: Final = 10.0
"""For each wait on the network."""
_MAX_BYTES: Final = 1 << 20


def fetch_document(url: str) -> bytes:
    """Fetch the document. Raises OSError, or ValueError for other URLs or more than 1 MiB."""
    if urllib.parse.urlsplit(url).scheme not in _SCHEMES:
        raise ValueError(f"{url} is not an http, https or file URL")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            document: bytes = answer.read(_MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()  # it is also a response
        raise OSError(f"the server answered with HTTP status {error.code}") from None
    except http.client.HTTPException as error:
        raise OSError(f"the server does not speak HTTP ({type(error).__name__})") from error
    if len(document) > _MAX_BYTES:
        raise ValueError(f"{url} has more than {_MAX_BYTES} bytes")
    return document
