"""TLS of a broker's listeners: creates endpoints from settings and updates them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cluster.config import broker as keys
from cluster.config.listeners import ListenerConfig, of_listener
from cluster.config.settings import Settings
from cluster.model.errors import UserError
from cluster.model.principal_rules import PrincipalRules
from cluster.model.security import SecurityProtocol
from cluster.runtime.clock import Clock
from cluster.runtime.handshake_thread import HandshakeThread
from cluster.runtime.loop import EventLoop
from cluster.runtime.tls_endpoint import TlsEndpoint, TlsTerminator
from cluster.runtime.tls_options import StoreSource, TlsOptions


class _InForce(NamedTuple):
    """The settings last applied to an endpoint."""

    options: TlsOptions
    rules: str
    may_change_subject: bool
    may_drop_hosts: bool


@dataclass(slots=True)
class _Served:
    endpoint: TlsEndpoint
    in_force: _InForce


class TlsListeners:
    """The TLS endpoints of a broker.

    Lifecycle: `open` each listener, `on_settings` at each change, `close`. A broker without TLS
    listeners starts no handshake thread.
    """

    def __init__(self, settings: Settings, loop: EventLoop, clock: Clock) -> None:
        self._settings = settings
        self._loop = loop
        self._clock = clock
        self._terminator: TlsTerminator | None = None
        self._served: dict[str, _Served] = {}

    def open(self, listener: ListenerConfig) -> TlsEndpoint | None:
        """The endpoint that prepares connections of this listener; None without TLS.

        Reads files. Raises UserError if the certificate is unusable.
        """
        if not listener.protocol.is_encrypted:
            return None
        wanted = _wanted(self._settings, listener.name)
        user_of = _user_of(wanted.rules)
        if self._terminator is None:
            handshakes = HandshakeThread(self._clock, self._loop.call_from_thread)
            self._terminator = TlsTerminator(self._loop, handshakes)
        try:
            endpoint = TlsEndpoint(
                listener.name,
                wanted.options,
                self._terminator,
                # The user of a SASL listener is the authenticated one, whatever certificate is
                # presented.
                user_of if listener.protocol is SecurityProtocol.SSL else None,
                may_change_subject=wanted.may_change_subject,
                may_drop_hosts=wanted.may_drop_hosts,
            )
        except UserError as error:
            raise UserError(f"listener {listener.name}: {error}") from error
        self._served[listener.name] = _Served(endpoint, wanted)
        return endpoint

    def on_settings(self, settings: Settings) -> None:
        """Apply changed settings soon; the handshake thread reads the files."""
        for name, served in self._served.items():
            wanted = _wanted(settings, name)
            if wanted != served.in_force:
                served.in_force = wanted
                served.endpoint.change(
                    wanted.options,
                    may_change_subject=wanted.may_change_subject,
                    may_drop_hosts=wanted.may_drop_hosts,
                )

    def close(self) -> None:
        """Abort handshakes in progress."""
        if self._terminator is not None:
            self._terminator.close()


def _wanted(settings: Settings, listener_name: str) -> _InForce:
    own = of_listener(settings, listener_name)
    return _InForce(
        TlsOptions(
            key_store=StoreSource(
                "keystore",
                own[keys.SSL_KEYSTORE_TYPE],
                own[keys.SSL_KEYSTORE_LOCATION],
                own[keys.SSL_KEYSTORE_PASSWORD],
                own[keys.SSL_KEY_PASSWORD],
                own[keys.SSL_KEYSTORE_KEY],
                own[keys.SSL_KEYSTORE_CERTIFICATE_CHAIN],
            ),
            trust_store=StoreSource(
                "truststore",
                own[keys.SSL_TRUSTSTORE_TYPE],
                own[keys.SSL_TRUSTSTORE_LOCATION],
                own[keys.SSL_TRUSTSTORE_PASSWORD],
                certificates_text=own[keys.SSL_TRUSTSTORE_CERTIFICATES],
            ),
            client_auth=own[keys.SSL_CLIENT_AUTH],
            protocols=own[keys.SSL_ENABLED_PROTOCOLS],
            cipher_suites=own[keys.SSL_CIPHER_SUITES],
        ),
        own[keys.SSL_PRINCIPAL_MAPPING_RULES],
        settings[keys.SSL_ALLOW_DN_CHANGES],
        settings[keys.SSL_ALLOW_SAN_CHANGES],
    )


def _user_of(rules: str) -> Callable[[str], str]:
    try:
        return PrincipalRules(rules).user_of
    except ValueError as error:
        raise UserError(f"ssl.principal.mapping.rules: {error}") from error
