"""What routes read from requests, and the answers that they give."""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from cluster.dashboard.sources import Done

_BODY_MAX_BYTES: Final = 64 * 1024
NO_STORE: Final = {"cache-control": "no-store"}


class BadRequest(Exception):
    """A request that cannot be understood; the text is the reason."""


async def json_of(read: Callable[[], Mapping[str, Any]]) -> Response:
    """The answer of a blocking function, which is called on a thread."""
    return JSONResponse(await asyncio.to_thread(read), headers=NO_STORE)


async def done_of(change: Callable[[], Done]) -> Response:
    """What a blocking function has changed; it is called on a thread."""
    done = await asyncio.to_thread(change)
    return JSONResponse({"text": done.text, "command": done.command})


async def json_body(request: Request, max_bytes: int = _BODY_MAX_BYTES) -> dict[str, Any]:
    """The JSON object in the request. Raises BadRequest."""
    received = bytearray()
    try:
        async for part in request.stream():
            received += part
            if len(received) > max_bytes:
                raise BadRequest(f"a request has at most {max_bytes} bytes")
        body = json.loads(received)
        if (
            b"\\u" in received
        ):  # half of a surrogate pair is valid JSON, but no text that can be sent on
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRequest("the request has half a surrogate pair, no character") from None
    except (ValueError, RecursionError, ClientDisconnect):
        raise BadRequest("the request is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the request is not an object")
    return body


def number_in(given: object) -> float:
    """A finite number of JSON or in a text. Raises BadRequest."""
    try:
        number = float(given)  # type: ignore[arg-type]  # whatever JSON has
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or isinstance(given, bool):
        raise BadRequest(f"{str(given)[:40]} is not a number")
    return number


def query_of(request: Request, name: str) -> str:
    """A parameter of the address. Raises BadRequest if it is missing."""
    given = request.query_params.get(name)
    if given is None:
        raise BadRequest(f"{name} is missing")
    return given
