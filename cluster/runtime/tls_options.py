"""TLS options as plain data, so that processes without TLS load no TLS code."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class StoreSource:
    """The source of a store: a file and its type, or PEM texts. `name` is that in
    `ssl.NAME.type`."""

    name: str
    type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key_text: str | None = field(default=None, repr=False)
    certificates_text: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        """Whether a store is configured."""
        return self.location is not None or self.certificates_text is not None


NO_TRUST_STORE: Final = StoreSource("truststore")
"""Then the authorities count that the system trusts, as Java's do."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The TLS options of a listener; `cipher_suites` by their standard names, () for all."""

    key_store: StoreSource
    trust_store: StoreSource = NO_TRUST_STORE
    client_auth: str = "none"
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()

    def files(self) -> tuple[Path, ...]:
        """The files that hold the stores."""
        stores = (self.key_store, self.trust_store)
        return tuple(Path(each.location) for each in stores if each.location is not None)


@dataclass(frozen=True, slots=True)
class TlsClientOptions:
    """The TLS options of a client in this process."""

    trust_store: StoreSource = NO_TRUST_STORE
    key_store: StoreSource | None = None
    """Its own certificate, where the server asks for one."""
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    verifies_host: bool = True
    """Whether the server's certificate has to name the host that it is reached at."""
