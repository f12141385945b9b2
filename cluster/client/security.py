"""How a client protects its connections and proves who it is: one statement for both our clients.

Made from a properties file by `security_properties`; confluent-kafka gets it as settings, the
`SocketClient` as a TLS context and a login. No text of it names a password or a private key.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.client.bearer_tokens import TokenSource, UnsecuredToken
from cluster.model.errors import UserError
from cluster.model.security import SaslMechanism, SecurityProtocol
from cluster.runtime.clock import SystemClock

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """What a client needs for one cluster; the default is a connection without protection."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ca_pem: str | None = None
    """The authorities that it trusts; None: those of the operating system."""
    certificate_pem: str | None = None
    """Its own certificate and those above it, for mutual TLS."""
    key_pem: str | None = field(default=None, repr=False)
    """The certificate's private key, not encrypted."""
    verifies_host: bool = True
    """Whether the certificate of a broker has to name the host that it is reached at."""
    mechanism: SaslMechanism | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    token_auth: bool = False
    """Whether name and password are those of a delegation token (KIP-48)."""
    token: TokenSource | None = None
    """Where tokens come from, for OAUTHBEARER alone."""

    def librdkafka_here(self) -> dict[str, Any]:
        """The settings of a client in this process, which may call back for a token."""
        token = self.token
        if token is None or isinstance(token, UnsecuredToken):
            return {**self.librdkafka()}
        return {
            **self._librdkafka_tls(),
            "sasl.mechanisms": str(self.mechanism),
            "oauth_cb": lambda _: token.token(SystemClock().wall_ms()),
        }

    def librdkafka(self) -> dict[str, str]:
        """The settings of a confluent-kafka client; empty without protection. Raises UserError."""
        settings = self._librdkafka_tls()
        if self.protocol.has_sasl:
            settings["sasl.mechanisms"] = str(self.mechanism)
            settings |= self._librdkafka_login()
        return settings

    def _librdkafka_login(self) -> dict[str, str]:
        if self.token_auth:
            raise UserError("librdkafka cannot log in with a delegation token")
        match self.token:
            case None:
                return {"sasl.username": self.username, "sasl.password": self.password}
            case UnsecuredToken(user, lifetime_s):
                return {
                    "enable.sasl.oauthbearer.unsecure.jwt": "true",
                    "sasl.oauthbearer.config": f"principal={user} lifeSeconds={lifetime_s}",
                }
            case _:
                raise UserError(
                    "a token from a file is for this command alone: the processes that it starts"
                    " cannot read it"
                )

    def _librdkafka_tls(self) -> dict[str, str]:
        if self.protocol is SecurityProtocol.PLAINTEXT:
            return {}
        settings = {"security.protocol": self.protocol.value.lower()}
        if self.protocol.is_encrypted:
            settings["ssl.endpoint.identification.algorithm"] = (
                "https" if self.verifies_host else "none"
            )
            if self.ca_pem is not None:
                settings["ssl.ca.pem"] = self.ca_pem
            if self.certificate_pem is not None and self.key_pem is not None:
                settings["ssl.certificate.pem"] = self.certificate_pem
                settings["ssl.key.pem"] = self.key_pem
        return settings

    def tls_context(self) -> ssl.SSLContext:
        """The context of a client's TLS connections. Raises UserError for unusable PEM texts."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verifies_host
        try:
            if self.ca_pem is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=self.ca_pem)
            if self.certificate_pem is not None and self.key_pem is not None:
                with _private_file(f"{self.certificate_pem}\n{self.key_pem}") as path:
                    context.load_cert_chain(path)
        except (ssl.SSLError, ValueError) as problem:
            raise UserError(f"cannot use the certificates of the client: {problem}") from None
        return context


UNPROTECTED: Final = ClientSecurity()


class Servers(NamedTuple):
    """Brokers, and how to connect to them."""

    addresses: Sequence[Address]
    security: ClientSecurity = UNPROTECTED

    def librdkafka(self) -> dict[str, str]:
        """The settings with which a confluent-kafka client connects. Raises UserError."""
        bootstrap = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return {"bootstrap.servers": bootstrap, **self.security.librdkafka()}

    def only(self, address: Address) -> "Servers":
        """One broker of the same cluster."""
        return Servers([address], self.security)


@contextmanager
def _private_file(text: str) -> Iterator[Path]:
    """A file of mode 0600 for the time of the block: `ssl` takes keys from files alone."""
    descriptor, name = tempfile.mkstemp(prefix="milena-")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        path.unlink()
