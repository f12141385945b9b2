"""What the coordinators of a broker are made of: options of their topic, and shared ports."""

from dataclasses import dataclass

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.replication.internal_topics import InternalTopics
from cluster.model.error_codes import ErrorCode
from cluster.records.batch import Compression
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    """The internal topic of one kind of coordinator, and how it is read and written."""

    topic: str
    invalid_key: ErrorCode
    """The error for a key that is too long for a record."""
    load_buffer_bytes: int
    append_timeout_ms: int
    """An append that is not confirmed within this time is reported as late."""
    codec: Compression
    loads_committed: bool = False
    """Whether loading ends only when every in-sync replica has the loaded records. Otherwise
    requests may see what is lost again if this leader fails at once."""


@dataclass(frozen=True, slots=True)
class CoordinatorPorts:
    """What every coordinator of a broker uses."""

    internal_topics: InternalTopics
    metadata: MetadataCache
    slices: Slices
    clock: Clock
    loop: EventLoop
