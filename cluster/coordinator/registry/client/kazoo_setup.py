"""Changes kazoo's behavior for all clients of a process.

kazoo logs every request and answer at DEBUG, including logins and the content of znodes, and
session passwords below that. It recognizes a refused login by only one of the two codes that
ZooKeeper answers.
"""

import logging
import socket  # noqa: TID251 - kazoo's connections are made here where they have TLS
import ssl
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    KazooException,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import SASL as SASL_REQUEST
from kazoo.protocol.serialization import Auth, Connect
from kazoo.protocol.states import KeeperState

from cluster.coordinator.registry.client.registry_access import DIGEST, SASL, RegistryAccess
from cluster.coordinator.registry.wire.digest_md5 import MECHANISM

_logger = logging.getLogger(__name__)
_LOGGERS: Final = ("kazoo.client", "kazoo.protocol.connection")
_SECRET: Final = (Auth, SASL_REQUEST, Connect)


class LoginRequired(SessionClosedRequireSaslError, AuthFailedError):  # type: ignore[misc]
    """The registry requires logins and has refused this one.

    kazoo, which has no types, gives up on an AuthFailedError; another error would end its thread
    with a traceback.
    """


class _SecretFilter(logging.Filter):
    """Logs requests with secrets without their fields, and the content of znodes, such as
    credentials of users, only by its size; drops lines about passwords.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if "passwd" in str(record.msg):
            return False
        if isinstance(record.args, tuple):
            record.args = tuple(map(_shown, record.args))
        return True


def _shown(told: Any) -> Any:
    """A request or answer of kazoo without secrets. They are nested named tuples."""
    if isinstance(told, _SECRET):
        return type(told).__name__
    if isinstance(told, bytes):
        return f"<{len(told)} bytes>"
    if isinstance(told, list):
        return list(map(_shown, told))
    if isinstance(told, tuple):
        parts = map(_shown, told)
        return told._make(parts) if hasattr(told, "_make") else tuple(parts)
    return told


_FILTER: Final = _SecretFilter()


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler (kazoo has no types) with TLS connections of our own, since kazoo can only
    read PEM files. It also reports bytes that are already decrypted, for which nothing more
    arrives.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_unused: object
    ) -> ssl.SSLSocket:
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except ssl.SSLError as error:
            plain.close()
            _logger.warning("TLS with the registry at %s:%d fails: %s", *address, error.reason)
            raise

    def select(self, readers: list[Any], *others: Any) -> Any:
        decrypted = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending() > 0]
        return (decrypted, [], []) if decrypted else super().select(readers, *others)


def kazoo_arguments(access: RegistryAccess) -> dict[str, Any]:
    """The arguments for a KazooClient that authenticates on every connection. Raises UserError for
    unusable stores of keys and certificates.
    """
    _set_up_kazoo()
    arguments: dict[str, Any] = {}
    if access.scheme == DIGEST:
        arguments["auth_data"] = [(DIGEST, f"{access.user}:{access.password}")]
    elif access.scheme == SASL:
        login = {"mechanism": MECHANISM, "username": access.user, "password": access.password}
        arguments["sasl_options"] = login
    if access.tls is not None:
        from cluster.runtime.tls_context import client_context

        arguments["use_ssl"] = True
        arguments["handler"] = _TlsHandler(client_context(access.tls))
    return arguments


def _set_up_kazoo() -> None:
    """Called before the first client is made; idempotent."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
    EXCEPTIONS[SessionClosedRequireSaslError.code] = LoginRequired


def start_client(client: KazooClient, timeout_s: float) -> None:
    """Connect and log in. Raises AuthFailedError if the registry refuses the login, which kazoo
    reports by varying errors; else KazooTimeoutError or KazooException.
    """
    refused = []

    def listen(_state: str) -> None:
        if client.client_state == KeeperState.AUTH_FAILED:
            refused.append(True)

    client.add_listener(listen)
    try:
        client.start(timeout=timeout_s)
        client.exists("/")  # kazoo logs in after it has said that it is connected
    except (KazooException, KazooTimeoutError) as error:
        if refused:
            raise AuthFailedError from error
        raise
    finally:
        client.remove_listener(listen)
