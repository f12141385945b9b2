"""The identity and connection options of a client of the registry; kazoo is not needed for it."""

from dataclasses import dataclass, field
from typing import Final, Self

from cluster.runtime.tls_options import TlsClientOptions

DIGEST: Final = "digest"
"""ZooKeeper's `addauth`."""
SASL: Final = "sasl"
"""SASL with DIGEST-MD5, as configured by Kafka's JAAS section `Client`."""


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
        """Parse `digest:USER:PASSWORD` or `sasl:USER:PASSWORD`; None for no identity. Raises
        ValueError, whose text holds no secret.
        """
        if text is None:
            return cls(tls=tls)
        scheme, _, rest = text.partition(":")
        user, colon, password = rest.partition(":")
        if scheme not in (DIGEST, SASL) or not user or not colon:
            raise ValueError("it is not digest:USER:PASSWORD or sasl:USER:PASSWORD")
        return cls(scheme, user, password, tls)

    @property
    def text(self) -> str | None:
        """The inverse of `parse`."""
        return None if self.scheme is None else f"{self.scheme}:{self.user}:{self.password}"


NOBODY: Final = RegistryAccess()
