"""What can be chosen about the built-in registry; names in brackets are ZooKeeper's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cluster.model.addresses import LOOPBACK, REGISTRY_PORT, is_loopback
from cluster.model.errors import UserError
from cluster.runtime.tls_options import TlsOptions

MIN_FREE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """Who may log in by SASL (DIGEST-MD5), and whether everybody has to."""

    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By user (the `user_NAME` entries of a JAAS section `Server`)."""
    is_required: bool = False
    """Requests of connections that have not logged in are refused (sessionRequireClientSASLAuth).
    """
    super_user: str | None = None
    """The user that no ACL holds back (zookeeper.superUser)."""
    failure_delay_ms: int = 100
    """How long a failed login waits for its answer, after which its connection is closed; nothing
    more is read of it meanwhile."""


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Fixed for the life of a registry process."""

    data_dir: Path
    """Journal and snapshots (dataDir); made when missing."""
    host: str = LOOPBACK
    port: int = REGISTRY_PORT
    """0 lets the kernel choose (clientPort)."""
    tick_time_ms: int = 2_000
    """Sessions are granted 2 to 20 ticks and expire on a tick (tickTime)."""
    max_client_connections: int = 0
    """Connections per client address; 0 = any number (maxClientCnxns)."""
    jute_max_buffer_bytes: int = 0xF_FFFF
    """Longest request; a longer one closes its connection (jute.maxbuffer)."""
    receiving_max_bytes: int = 32 << 20
    """Bytes of requests that have not arrived whole, over all connections; above it the connection
    that began last is not read, the oldest is."""
    unsent_max_bytes: int = 64 << 20
    """Bytes of replies and notifications that clients do not take, over all connections; above it
    the one that has taken nothing for longest is closed."""
    snapshot_every_transactions: int = 20_000
    """A snapshot is taken after so many, or after as many as there are znodes (snapCount)."""
    min_free_bytes: int = MIN_FREE_BYTES
    """With less room on the disk, writes that take much of it are refused, such as new znodes; with
    a quarter of it all writes and new sessions. Half as much is kept in a file, and given back when
    others have filled the disk. Reads go on, and sessions can end."""
    tls: TlsOptions | None = None
    """Then the port is one of TLS alone (secureClientPort)."""
    logins: LoginOptions = field(default_factory=LoginOptions)
    four_letter_words: frozenset[str] = frozenset({"srvr"})
    """Those that are answered, which needs no login (4lw.commands.whitelist); `*` stands for all.
    """
    fsync: bool = True
    """False: an acknowledged write survives kill -9, but not a power cut."""

    def check(self) -> None:
        """Raise UserError for options under which anybody could change the cluster, or listen to
        those who may.
        """
        if not is_loopback(self.host) and not (self.logins.is_required and self.tls):
            raise UserError(
                f"a registry on {self.host} must require a login, over TLS: whoever reaches it"
                " could change everything (give it users and a certificate, or keep it on"
                " 127.0.0.1)"
            )
        if self.logins.is_required and not self.logins.passwords:
            raise UserError("the registry requires a login, and has no users: give it one")
