"""How clients of the registry reach it and prove who they are; kazoo is not needed for it."""

from dataclasses import dataclass, field
from typing import Final, Self

from cluster.runtime.tls_options import TlsClientOptions

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

    @property
    def text(self) -> str | None:
        """What `parse` made it from."""
        return None if self.scheme is None else f"{self.scheme}:{self.user}:{self.password}"


NOBODY: Final = RegistryAccess()
