"""How clients of the registry reach it and prove who they are; kazoo is not needed for it."""

from dataclasses import dataclass, field
from typing import Final, Self

from cluster.config import broker
from cluster.config.snapshot import Settings
from cluster.runtime.key_stores import StoreSource
from cluster.runtime.tls_context import TlsClientOptions

DIGEST: Final = "digest"
"""ZooKeeper's `addauth`."""
SASL: Final = "sasl"
"""A login by SASL with DIGEST-MD5: what a JAAS section `Client` gives Kafka."""


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """An identity at the registry, or none."""

    scheme: str | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    tls: TlsClientOptions | None = None
    """None: connections are not encrypted."""

    @classmethod
    def parse(cls, text: str | None, tls: TlsClientOptions | None = None) -> Self:
        """From `digest:USER:PASSWORD` or `sasl:USER:PASSWORD`; None for nobody. Raises ValueError,
        whose text holds no secret.
        """
        if text is None:
            return cls(tls=tls)
        scheme, _, rest = text.partition(":")
        user, colon, password = rest.partition(":")
        if scheme not in (DIGEST, SASL) or not user or not colon:
            raise ValueError("it is not digest:USER:PASSWORD or sasl:USER:PASSWORD")
        return cls(scheme, user, password, tls)

    @classmethod
    def of_settings(cls, settings: Settings) -> Self:
        """That of a broker."""
        return cls.parse(settings[broker.REGISTRY_AUTH], tls_of(settings))

    @property
    def text(self) -> str | None:
        """What `parse` made it from."""
        return None if self.scheme is None else f"{self.scheme}:{self.user}:{self.password}"


def tls_of(settings: Settings) -> TlsClientOptions | None:
    """What Kafka's settings for TLS with ZooKeeper say (KIP-515)."""
    if not settings[broker.ZOOKEEPER_SSL_CLIENT_ENABLE]:
        return None
    own = StoreSource(
        "keystore",
        settings[broker.ZOOKEEPER_SSL_KEYSTORE_TYPE],
        settings[broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION],
        settings[broker.ZOOKEEPER_SSL_KEYSTORE_PASSWORD],
    )
    trusted = StoreSource(
        "truststore",
        settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_TYPE],
        settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION],
        settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD],
    )
    return TlsClientOptions(
        trusted,
        own if own.is_given else None,
        protocols=settings[broker.ZOOKEEPER_SSL_ENABLED_PROTOCOLS]
        or (settings[broker.ZOOKEEPER_SSL_PROTOCOL],),
        cipher_suites=settings[broker.ZOOKEEPER_SSL_CIPHER_SUITES],
        verifies_host=settings[broker.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION] == "HTTPS",
    )


NOBODY: Final = RegistryAccess()
