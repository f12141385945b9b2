"""What requests about delegation tokens have in common (KIP-48): who may make them, and names."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypeVar

from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, Unchecked
from cluster.brokers.handlers.services import SecurityServices
from cluster.model.acls import USER_PREFIX
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import ErrorCode

PRINCIPAL_TYPE: Final = USER_PREFIX.removesuffix(":")
"""The only type of principal there is."""

CHANGED_BY_OWNERS: Final = Unchecked("the owner and the renewers of a token may")

Response = TypeVar("Response")


def may_ask(services: SecurityServices, context: RequestContext) -> bool:
    """Whether the client has proved who it is by something other than a token."""
    return services.logins.may_have_tokens(context.channel)


def principal_of(context: RequestContext) -> str:
    """`User:alice`."""
    return f"{USER_PREFIX}{context.user}"


def split(principal: str) -> tuple[str, str]:
    """Type and name."""
    kind, _, name = principal.partition(":")
    return kind, name


def milliseconds(duration: timedelta) -> int:
    """Whole milliseconds; negative ones stay so."""
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
        """Change when the token of that secret ends; calls back once."""
        ...


def change_end(
    context: RequestContext,
    services: SecurityServices,
    change: ChangesToken,
    token_secret: bytes,
    period: timedelta,
    make: Callable[[ErrorCode, datetime | None, timedelta], Response],
) -> Response | NotYet:
    """Change when a token ends; `make` takes what renewing and expiring both answer."""

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
