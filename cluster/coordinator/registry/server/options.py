"""What can be chosen about the built-in registry; names in brackets are ZooKeeper's."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Fixed for the life of a registry process."""

    data_dir: Path
    """Journal and snapshots (dataDir); made when missing."""
    host: str = "127.0.0.1"
    port: int = 2181
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
    min_free_bytes: int = 16 << 20
    """With less room on the disk, writes and new sessions are refused; reads go on, and sessions
    can end, which needs a little of it."""
    fsync: bool = True
    """False: an acknowledged write survives kill -9, but not a power cut."""
