"""Shared by the handlers of delegation tokens (KIP-48): who may use them, and principals
and times.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypeVar

from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, Unchecked
from cluster.brokers.handlers.services import SecurityServices
from cluster.model.acls import USER_PREFIX
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import ErrorCode

PRINCIPAL_TYPE: Final = USER_PREFIX.removesuffix(":")
"""The only supported principal type."""

CHANGED_BY_OWNERS: Final = Unchecked("the owner and the renewers of a token may change it")

Response = TypeVar("Response")


def may_ask(services: SecurityServices, context: RequestContext) -> bool:
    """Whether the client has authenticated by something other than a delegation token."""
    return services.logins.may_have_tokens(context.channel)


def principal_of(context: RequestContext) -> str:
    return f"{USER_PREFIX}{context.user}"


def split(principal: str) -> tuple[str, str]:
    """The principal's type and name."""
    kind, _, name = principal.partition(":")
    return kind, name


def milliseconds(duration: timedelta) -> int:
    """The duration in whole milliseconds, which may be negative."""
    return duration // timedelta(milliseconds=1)


def timestamp(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=wall_ms)


class ChangesToken(Protocol):
    """`DelegationTokens.renew` or `expire`."""

    def __call__(
        self,
        principal: str,
        token_secret: bytes,
        period_ms: int,
        on_done: Callable[[ErrorCode, DelegationToken | None], None],
    ) -> None:
        """Change the expiry time of the token with that HMAC; calls `on_done` once."""
        ...


def change_end(
    context: RequestContext,
    services: SecurityServices,
    change: ChangesToken,
    token_secret: bytes,
    period: timedelta,
    make: Callable[[ErrorCode, datetime | None, timedelta], Response],
) -> Response | NotYet:
    """Change a token's expiry time; `make` builds the answer of either API."""

    def response(error: ErrorCode, token: DelegationToken | None) -> Response:
        ends_at = None if token is None else timestamp(token.expires_at)
        return make(error, ends_at, timedelta(0))

    if not may_ask(services, context):
        return response(ErrorCode.delegation_token_request_not_allowed, None)
    change(
        principal_of(context),
        token_secret,
        milliseconds(period),
        lambda error, token: context.answer(response(error, token)),
    )
    return PARKED
