"""Requests between brokers that are not about records, and their answers.

These are the controller's requests to brokers (Kafka's LeaderAndIsr, StopReplica and UpdateMetadata
in one message), and the brokers' requests to the controller (AlterPartition, CreateTopics, ...).
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from cluster.model.cluster import (
    BrokerRegistration,
    DoubtfulLog,
    Endpoint,
    OfflinePartitions,
    PartitionState,
    TopicState,
)
from cluster.model.errors import ErrorCode
from cluster.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from cluster.model.quotas import QuotaClient
from cluster.model.topics import TOPIC_NAME_LENGTH_MAX, TopicAlteration
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    EPOCH,
    ERROR_CODE,
    INT32,
    LONG,
    NUMBER,
    OFFSET,
    OFFSET_OR_NONE,
    UNIQUE_ID,
    FieldType,
    listed,
    mapped,
    matching,
    octets,
    optional,
    record,
    text,
)
from cluster.protocol.peer.replication import PARTITIONS_MAX

AnswerT = TypeVar("AnswerT")


class Request(Generic[AnswerT]):
    """A message with an answer: an `AnswerT` or a Refusal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that was not understood: nothing has been done.

    `reason` is one line for a person.
    """

    code: ErrorCode
    reason: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The request was carried out, or failed with an error code."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class ClusterUpdate(Request[Acknowledged]):
    """Changes of the cluster's state, or all of it when `is_full`.

    `broker_epoch` is the receiver's: an update for an earlier registration is refused (KIP-380).
    `topics` hold only the partitions that changed, unless `is_full`; `offline` are all replicas
    that are offline on live brokers, `full` those in full log directories there, `full_brokers` the
    brokers that have no room anywhere. A large update goes in parts; the last one has these.
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    is_full: bool
    brokers: tuple[BrokerRegistration, ...]
    topics: tuple[TopicState, ...]
    deleted: tuple[str, ...]
    part: int = 0
    is_last: bool = True
    offline: tuple[OfflinePartitions, ...] = ()
    full: tuple[OfflinePartitions, ...] = ()
    full_brokers: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionAltered:
    """The answer to AlterPartition: an error code, or the current state."""

    code: ErrorCode
    isr: tuple[BrokerId, ...] = ()
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)
    eligible: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartition(Request[PartitionAltered]):
    """A leader proposes an ISR based on the state that it knows (KIP-497).

    `broker_epoch` is the leader's own: a proposal from an earlier registration is refused.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    topic: str
    partition: int
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    joining_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The epoch of the registration with which the new member has fetched everything (KIP-903)."""


class TopicOutcome(NamedTuple):
    """The outcome for one topic of a request; `detail` is for a person."""

    topic: str
    code: ErrorCode
    detail: str | None


@dataclass(frozen=True, slots=True)
class TopicOutcomes:
    """One outcome for each topic of the request."""

    outcomes: Sequence[TopicOutcome]


@dataclass(frozen=True, slots=True)
class CreateTopics(Request[TopicOutcomes]):
    """Create topics with default settings.

    `requester` is the client that needed them, whose `controller_mutation_rate` pays for them
    (KIP-590 forwards its principal and client id for that); None if the broker needs them.
    """

    names: Sequence[str]
    requester: QuotaClient | None


@dataclass(frozen=True, slots=True)
class AlterTopicConfigs(Request[TopicOutcomes]):
    """Change the configs of topics, or only check the change."""

    alterations: Sequence[TopicAlteration]
    validate_only: bool


@dataclass(frozen=True, slots=True)
class ShutdownPrepared:
    """`is_done` is False if the broker is not the controller (any more)."""

    is_done: bool


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Request[ShutdownPrepared]):
    """Move leaderships away from a broker, of this epoch, that is about to stop."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class ReportOffline(Request[Acknowledged]):
    """All offline replicas of a live broker of this epoch (KIP-112).

    In Kafka's ZooKeeper mode the broker writes to `/log_dir_event_notification`, and the controller
    asks it for the error of each replica.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    offline: tuple[OfflinePartitions, ...]


@dataclass(frozen=True, slots=True)
class ReportFull(Request[Acknowledged]):
    """All replicas of a live broker of this epoch whose log directories are full.

    `reason` says that none of its directories has room; it is empty while one has. Kafka has no
    such message: there a full directory has failed.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    full: tuple[OfflinePartitions, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Ping(Request[Acknowledged]):
    """Checks that a broker is alive. `number` counts the pings of one sender."""

    number: int


@dataclass(frozen=True, slots=True)
class ProduceMetrics(Request[Acknowledged]):
    """A batch of metric records for the leader of a partition of the metrics topic."""

    partition: int
    batch: bytes


@dataclass(frozen=True, slots=True)
class KeepHistories(Request[Acknowledged]):
    """A broker's knowledge of groups' rebalances, for their new coordinator.

    Each is one group, packed by `coordinator/groups/history/explanation.py`.
    """

    histories: tuple[bytes, ...]


class NumberedPartitions(NamedTuple):
    """Some partitions of a topic."""

    topic: str
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The high watermarks, by topic and partition of the request.

    A high watermark is the end of the log for consumers; it is -1 if the broker does not lead.
    """

    ends: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class AskLogEnds(Request[LogEnds]):
    """A group coordinator asks a leader for the ends of partitions."""

    topics: Sequence[NumberedPartitions]


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole batches as they are in a replica's log, or an error code.

    `may_differ`: compaction, which each replica does on its own, may have changed them. Without
    records there are none before `end_offset`, which is as far as was asked or as the replica is
    committed.
    """

    code: ErrorCode
    may_differ: bool = True
    end_offset: int = 0
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class AskBatches(Request[Batches]):
    """A broker with a damaged replica asks another broker for committed batches.

    They are those with records in [offset, end_offset): as many as fit, but at least one.
    """

    topic: str
    topic_id: uuid.UUID
    partition: int
    offset: int
    end_offset: int


_TEXT_MAX: Final = 1 << 20
"""The capacity of a znode, from which most texts come."""
_LIST_MAX: Final = 100_000
_BATCH_BYTES_MAX: Final = 16 << 20
_RECORDS_BYTES_MAX: Final = 1 << 30
"""A batch may be as large as a segment, whatever the current settings."""
_TEXT: Final = text(_TEXT_MAX)
_TOPIC: Final = matching(
    re.compile(rf"(?!\.{{1,2}}\Z)[^/\0]{{1,{TOPIC_NAME_LENGTH_MAX}}}\Z").match,
    f"a topic's name, of at most {TOPIC_NAME_LENGTH_MAX} characters",
)
"""Checked only as a part of a directory's name; the controller refuses illegal topic names."""
_BROKERS: Final = listed(INT32, _LIST_MAX)


def _registered(*members: Any) -> BrokerRegistration:
    """Without the condition of its logs, which only the controller needs and reads itself."""
    return BrokerRegistration(*members)


_BROKER: Final = record(
    _registered,
    id=NUMBER,
    epoch=OFFSET_OR_NONE,
    endpoints=listed(
        record(Endpoint, listener=_TEXT, security_protocol=_TEXT, host=_TEXT, port=INT32),
        _LIST_MAX,
    ),
    rack=optional(_TEXT),
    control_endpoint=_TEXT,
    replication_endpoint=_TEXT,
    machine=_TEXT,
)


def _numbered(number: int, *members: Any) -> tuple[int, PartitionState]:
    return number, PartitionState(*members)


_DOUBTFUL: Final = listed(
    record(DoubtfulLog, broker=NUMBER, last_epoch=INT32, log_end_offset=OFFSET_OR_NONE), _LIST_MAX
)


_read_partitions: Final = listed(
    record(
        _numbered,
        number=NUMBER,
        replicas=_BROKERS,
        isr=_BROKERS,
        leader=INT32,
        leader_epoch=EPOCH,
        partition_epoch=EPOCH,
        eligible=_BROKERS,
        doubtful=_DOUBTFUL,
        adding=_BROKERS,
        removing=_BROKERS,
    ),
    PARTITIONS_MAX,
).reader()
_PARTITIONS: Final = FieldType(
    "a list of partitions",
    "True",
    "dict(read_partitions({v}))",
    "pack_partitions({v})",
    {
        "read_partitions": _read_partitions,
        "pack_partitions": lambda partitions: [
            (
                number,
                p.replicas,
                p.isr,
                p.leader,
                p.leader_epoch,
                p.partition_epoch,
                p.eligible,
                p.doubtful,
                p.adding,
                p.removing,
            )
            for number, p in partitions.items()
        ],
    },
)

_OFFLINE: Final = listed(
    record(
        OfflinePartitions,
        broker=NUMBER,
        topic_id=UNIQUE_ID,
        partitions=listed(NUMBER, PARTITIONS_MAX),
    ),
    PARTITIONS_MAX,
)

CLUSTER_UPDATE: Final = record(
    ClusterUpdate,
    controller=NUMBER,
    controller_epoch=NUMBER,
    broker_epoch=LONG,
    is_full=BOOLEAN,
    brokers=listed(_BROKER, _LIST_MAX),
    topics=listed(
        record(
            TopicState,
            name=_TOPIC,
            topic_id=UNIQUE_ID,
            configs=mapped(_TEXT, _TEXT, _LIST_MAX),
            partitions=_PARTITIONS,
        ),
        PARTITIONS_MAX,
    ),
    deleted=listed(_TOPIC, PARTITIONS_MAX),
    part=NUMBER,
    is_last=BOOLEAN,
    offline=_OFFLINE,
    full=_OFFLINE,
    full_brokers=_BROKERS,
)
ALTER_PARTITION: Final = record(
    AlterPartition,
    broker=NUMBER,
    broker_epoch=OFFSET_OR_NONE,
    topic=_TOPIC,
    partition=NUMBER,
    isr=listed(NUMBER, _LIST_MAX),
    leader_epoch=EPOCH,
    partition_epoch=EPOCH,
    joining_epoch=OFFSET_OR_NONE,
)
PARTITION_ALTERED: Final = record(
    PartitionAltered, code=ERROR_CODE, isr=_BROKERS, partition_epoch=EPOCH, eligible=_BROKERS
)
TOPIC_OUTCOMES: Final = record(
    TopicOutcomes,
    outcomes=listed(
        record(TopicOutcome, topic=_TEXT, code=ERROR_CODE, detail=optional(_TEXT)), _LIST_MAX
    ),
)
CREATE_TOPICS: Final = record(
    CreateTopics,
    names=listed(_TOPIC, _LIST_MAX),
    requester=optional(record(QuotaClient, user=_TEXT, client_id=_TEXT)),
)
ALTER_TOPIC_CONFIGS: Final = record(
    AlterTopicConfigs,
    alterations=listed(
        record(
            TopicAlteration,
            topic=_TOPIC,
            is_whole=BOOLEAN,
            values=mapped(_TEXT, optional(_TEXT), _LIST_MAX),
        ),
        _LIST_MAX,
    ),
    validate_only=BOOLEAN,
)
CONTROLLED_SHUTDOWN: Final = record(ControlledShutdown, broker=NUMBER, broker_epoch=OFFSET_OR_NONE)
REPORT_OFFLINE: Final = record(
    ReportOffline, broker=NUMBER, broker_epoch=OFFSET_OR_NONE, offline=_OFFLINE
)
REPORT_FULL: Final = record(
    ReportFull, broker=NUMBER, broker_epoch=OFFSET_OR_NONE, full=_OFFLINE, reason=_TEXT
)
SHUTDOWN_PREPARED: Final = record(ShutdownPrepared, is_done=BOOLEAN)
PING: Final = record(Ping, number=NUMBER)
PRODUCE_METRICS: Final = record(ProduceMetrics, partition=NUMBER, batch=octets(_BATCH_BYTES_MAX))
KEEP_HISTORIES: Final = record(KeepHistories, histories=listed(octets(_BATCH_BYTES_MAX), _LIST_MAX))
PARTITIONS_OF_TOPICS: Final = listed(
    record(NumberedPartitions, topic=_TOPIC, partitions=listed(NUMBER, PARTITIONS_MAX)),
    PARTITIONS_MAX,
)
ASK_LOG_ENDS: Final = record(AskLogEnds, topics=PARTITIONS_OF_TOPICS)
LOG_ENDS: Final = record(
    LogEnds, ends=listed(listed(OFFSET_OR_NONE, PARTITIONS_MAX), PARTITIONS_MAX)
)
ASK_BATCHES: Final = record(
    AskBatches,
    topic=_TOPIC,
    topic_id=UNIQUE_ID,
    partition=NUMBER,
    offset=OFFSET,
    end_offset=OFFSET,
)
BATCHES: Final = record(
    Batches,
    code=ERROR_CODE,
    may_differ=BOOLEAN,
    end_offset=OFFSET,
    records=octets(_RECORDS_BYTES_MAX),
)
ACKNOWLEDGED: Final = record(Acknowledged, code=ERROR_CODE)
REFUSAL: Final = record(Refusal, code=ERROR_CODE, reason=_TEXT)
