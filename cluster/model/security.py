"""How the clients of a listener are protected and authenticated, in Kafka's words."""

import enum
from typing import Final


class SecurityProtocol(enum.StrEnum):
    """Whether bytes are encrypted, and whether clients authenticate by SASL."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(enum.StrEnum):
    """The implemented SASL mechanisms."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection without another identity (Kafka: `KafkaPrincipal.ANONYMOUS`)."""
