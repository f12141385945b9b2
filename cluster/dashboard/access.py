"""Decides who may use the dashboard, and who may change something through it.

Every route has three checks in front of it: the host name (a foreign page may let its own name
resolve to this machine: DNS rebinding), the password if one is required, and for changes a token
that only the dashboard's own page knows (CSRF).
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cluster.datadir.dashboard_access import USER

TOKEN_HEADER: Final = "x-milena-token"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSAL_DELAY_S: Final = 0.5
_WAITING_MAX: Final = 20
"""Wrong passwords that wait for their response at once; others are refused without waiting."""

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every response: nothing is loaded from elsewhere, and nothing is embedded
elsewhere."""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The conditions that a request must meet."""

    hosts: frozenset[str] | None
    """Names, without a port, by which the dashboard may be addressed, in lower case.

    None for any name, if a password is required: a browser sends it only to the name that it was
    entered for."""
    token: str
    """The token that requests for changes must carry."""
    password: str | None = None
    """For HTTP Basic authentication as user `milena`; None if no password is required."""
    may_change: bool = True
    """Whether requests for changes are served at all."""


class AccessCheck:
    """ASGI middleware that applies the rules."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the reason for refusing it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = await self._refusal(request)
        answer: ASGIApp = self._app if refusal is None else refusal
        await answer(scope, receive, _with_headers(send))

    async def _refusal(self, request: Request) -> Response | None:
        rules = self._rules
        name = host_name(request.headers.get("host", ""))
        if rules.hosts is not None and name not in rules.hosts:
            return _refused(421, "the dashboard is not known by this name")
        if rules.password is not None and not await self._is_known(request, rules.password):
            answer = _refused(401, "the dashboard asks for its password")
            answer.headers["www-authenticate"] = 'Basic realm="Milena", charset="UTF-8"'
            return answer
        if request.method in _SAFE_METHODS:
            return None
        if not rules.may_change:
            return _refused(403, "this dashboard changes nothing: start with --dashboard-actions")
        if not _same_origin(request):
            return _refused(403, "the request comes from another page")
        if not _equal(request.headers.get(TOKEN_HEADER, ""), rules.token):
            return _refused(403, "the request does not carry the page's token: load the page again")
        return None

    async def _is_known(self, request: Request, password: str) -> bool:
        given = _basic_password(request.headers.get("authorization", ""))
        if given is None:
            return False
        if _equal(given, password):
            return True
        if self._waiting >= _WAITING_MAX:
            return False
        self._waiting += 1
        try:
            await asyncio.sleep(_REFUSAL_DELAY_S)
        finally:
            self._waiting -= 1
        return False


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return send_with_headers


def host_name(header: str) -> str:
    """The host of a `Host` header, without port and brackets, in lower case."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _same_origin(request: Request) -> bool:
    """Whether a browser says that the request comes from the dashboard itself, or says nothing."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        return False
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _basic_password(header: str) -> str | None:
    """The password, if the header names the right user."""
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return password if colon and user == USER else None


def _equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
