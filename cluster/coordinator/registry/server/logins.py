"""Logins to the registry by SASL. Pure.

Source: `ZooKeeperServer.processSasl` and `AuthenticationHelper` of ZooKeeper 3.8. A connection
first gets a session and then logs in; before the login it can do nothing else, if logins are
required.
"""

from collections.abc import Callable
from typing import Final, Protocol

from cluster.coordinator.registry.server.acl import SUPER, Identity
from cluster.coordinator.registry.server.options import LoginOptions
from cluster.coordinator.registry.wire.codes import Operation, OperationRefused, RegistryError
from cluster.coordinator.registry.wire.digest_md5 import DigestExchange, LoginRefused

_BEFORE_LOGIN: Final = frozenset({Operation.AUTH, Operation.SASL})


class LoginState(Protocol):
    """The login state of a connection."""

    address: str
    identities: tuple[Identity, ...]
    exchange: DigestExchange | None
    """The login in progress, if any."""


class Logins:
    """The users of one registry, and whether connections have to log in."""

    def __init__(
        self,
        options: LoginOptions,
        new_nonce: Callable[[], str],
        on_refused: Callable[[str, str], None],
    ) -> None:
        """`on_refused` is called with the address and the reason of each failed attempt."""
        self._options = options
        self._new_nonce = new_nonce
        self._on_refused = on_refused

    def require_login(self, connection: LoginState, operation: int) -> None:
        """Raise OperationRefused if the operation requires a login that is missing; the connection
        has to be closed then.
        """
        if not self._options.is_required or operation in _BEFORE_LOGIN:
            return
        if not any(own.scheme == "sasl" for own in connection.identities):
            self._on_refused(connection.address, "it has not logged in by SASL")
            raise OperationRefused(RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH)

    def answer(self, connection: LoginState, token: bytes) -> bytes:
        """The answer to a client's token. Raises OperationRefused; the connection has to be closed
        then.
        """
        try:
            return self._answer(connection, token)
        except LoginRefused as refused:
            connection.exchange = None
            self._on_refused(connection.address, f"its login failed: {refused}")
            code = RegistryError.AUTH_FAILED
            if self._options.is_required:
                code = RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH
            raise OperationRefused(code) from None

    def _answer(self, connection: LoginState, token: bytes) -> bytes:
        passwords = self._options.passwords
        if not passwords:
            raise LoginRefused("this registry has no users")
        exchange = connection.exchange
        if exchange is None:
            if token or any(own.scheme == "sasl" for own in connection.identities):
                raise LoginRefused("a token at the wrong time")
            connection.exchange = DigestExchange(self._new_nonce())
            return connection.exchange.challenge
        connection.exchange = None
        user, answer = exchange.check(token, passwords)
        connection.identities += (Identity("sasl", user),)
        if user == self._options.super_user:
            connection.identities += (SUPER,)
        return answer
