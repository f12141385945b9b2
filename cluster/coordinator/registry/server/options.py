"""Options of the built-in registry; names in brackets are ZooKeeper's."""

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
    """The users who may log in by SASL (DIGEST-MD5), and whether a login is required."""

    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user (the `user_NAME` entries of a JAAS section `Server`)."""
    is_required: bool = False
    """Whether requests of connections without a login are refused (sessionRequireClientSASLAuth).
    """
    super_user: str | None = None
    """The user who is exempt from ACLs (zookeeper.superUser)."""
    failure_delay_ms: int = 100
    """The delay before the answer to a failed login, after which its connection is closed; nothing
    more is read from it meanwhile.
    """


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Fixed for the life of a registry process."""

    data_dir: Path
    """The directory of journal and snapshots (dataDir); created if missing."""
    host: str = LOOPBACK
    port: int = REGISTRY_PORT
    """0 lets the kernel choose (clientPort)."""
    tick_time_ms: int = 2_000
    """Sessions are granted 2 to 20 ticks and expire on a tick (tickTime)."""
    max_client_connections: int = 0
    """Connections per client address; 0 = any number (maxClientCnxns)."""
    jute_max_buffer_bytes: int = 0xF_FFFF
    """The maximal size of a request; a longer one closes its connection (jute.maxbuffer)."""
    receiving_max_bytes: int = 32 << 20
    """The limit on bytes of incomplete requests over all connections. Above it the connection that
    started last is not read, but the oldest one is.
    """
    unsent_max_bytes: int = 64 << 20
    """The limit on bytes of unsent replies and notifications over all connections. Above it the
    connection that has taken nothing for longest is closed.
    """
    snapshot_every_transactions: int = 20_000
    """The number of transactions between snapshots, or the number of znodes if that is larger
    (snapCount).
    """
    min_free_bytes: int = MIN_FREE_BYTES
    """With less free space on the disk, writes that need much space, such as new znodes, are
    refused; with a quarter of it all writes and new sessions. Half as much is reserved in a file,
    which is removed when others have filled the disk. Reads go on, and sessions can end.
    """
    tls: TlsOptions | None = None
    """If set, the port accepts only TLS (secureClientPort)."""
    logins: LoginOptions = field(default_factory=LoginOptions)
    four_letter_words: frozenset[str] = frozenset({"srvr"})
    """The enabled words, which need no login (4lw.commands.whitelist); `*` stands for all."""
    fsync: bool = True
    """False: an acknowledged write survives kill -9, but not a power cut."""

    def check(self) -> None:
        """Raise UserError for options with which anybody could change the cluster, or eavesdrop on
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
