"""The messages between brokers as frames: the table of their kinds, `encode` and `decode`. Pure.

The first frame is the msgpack list [kind, [field, ...]], fields in the order of the class. Record
bytes of a fetch answer follow, one frame for each partition with records.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgpack

from cluster.model.errors import PeerError
from cluster.protocol.peer.control import (
    ACKNOWLEDGED,
    ALTER_PARTITION,
    ALTER_TOPIC_CONFIGS,
    ASK_BATCHES,
    ASK_LOG_ENDS,
    BATCHES,
    CLUSTER_UPDATE,
    CONTROLLED_SHUTDOWN,
    CREATE_TOPICS,
    KEEP_HISTORIES,
    LOG_ENDS,
    PARTITION_ALTERED,
    PING,
    PRODUCE_METRICS,
    REFUSAL,
    REPORT_FULL,
    REPORT_OFFLINE,
    SHUTDOWN_PREPARED,
    TOPIC_OUTCOMES,
    Acknowledged,
    AlterPartition,
    AlterTopicConfigs,
    AskBatches,
    AskLogEnds,
    Batches,
    ClusterUpdate,
    ControlledShutdown,
    CreateTopics,
    KeepHistories,
    LogEnds,
    PartitionAltered,
    Ping,
    ProduceMetrics,
    Refusal,
    ReportFull,
    ReportOffline,
    ShutdownPrepared,
    TopicOutcomes,
)
from cluster.protocol.peer.field_types import FieldType, Malformed, described
from cluster.protocol.peer.replication import (
    FOLLOWER_FETCH,
    FetchAnswer,
    FollowerFetch,
    pack_answer,
    read_answer,
)
from cluster.protocol.peer.transactions import (
    CHECK_TRANSACTIONS,
    PARTITION_ERRORS,
    WRITE_MARKERS,
    CheckTransactions,
    PartitionErrors,
    WriteMarkers,
)

Frames = list[bytes | memoryview]
_Read = Callable[[Any, Sequence[bytes]], Any]
_Pack = Callable[[Any], tuple[object, Frames]]


class MessageKind(NamedTuple):
    """One row of the table; `answer` is the class of a request's answers."""

    name: str
    message: type[Any]
    read: _Read
    pack: _Pack
    answer: type[Any] | None = None


def _kind(
    name: str, message: type[Any], fields: FieldType, answer: type[Any] | None = None
) -> MessageKind:
    """The row of a message that is one frame."""
    read_fields, pack_fields = fields.reader(), fields.packer()

    def read(content: Any, frames: Sequence[bytes]) -> Any:
        if frames:
            raise Malformed(f"{len(frames)} frames are too many")
        return read_fields(content)

    return MessageKind(name, message, read, lambda message: (pack_fields(message), []), answer)


KINDS: Final = (
    _kind("fetch", FollowerFetch, FOLLOWER_FETCH, FetchAnswer),
    MessageKind("fetched", FetchAnswer, read_answer, pack_answer),
    _kind("update", ClusterUpdate, CLUSTER_UPDATE, Acknowledged),
    _kind("alter-partition", AlterPartition, ALTER_PARTITION, PartitionAltered),
    _kind("partition-altered", PartitionAltered, PARTITION_ALTERED),
    _kind("create-topics", CreateTopics, CREATE_TOPICS, TopicOutcomes),
    _kind("alter-topic-configs", AlterTopicConfigs, ALTER_TOPIC_CONFIGS, TopicOutcomes),
    _kind("topic-outcomes", TopicOutcomes, TOPIC_OUTCOMES),
    _kind("controlled-shutdown", ControlledShutdown, CONTROLLED_SHUTDOWN, ShutdownPrepared),
    _kind("shutdown-prepared", ShutdownPrepared, SHUTDOWN_PREPARED),
    _kind("report-offline", ReportOffline, REPORT_OFFLINE, Acknowledged),
    _kind("report-full", ReportFull, REPORT_FULL, Acknowledged),
    _kind("ping", Ping, PING, Acknowledged),
    _kind("produce-metrics", ProduceMetrics, PRODUCE_METRICS, Acknowledged),
    _kind("keep-histories", KeepHistories, KEEP_HISTORIES, Acknowledged),
    _kind("ask-log-ends", AskLogEnds, ASK_LOG_ENDS, LogEnds),
    _kind("log-ends", LogEnds, LOG_ENDS),
    _kind("ask-batches", AskBatches, ASK_BATCHES, Batches),
    _kind("batches", Batches, BATCHES),
    _kind("check-transactions", CheckTransactions, CHECK_TRANSACTIONS, PartitionErrors),
    _kind("write-markers", WriteMarkers, WRITE_MARKERS, PartitionErrors),
    _kind("partition-errors", PartitionErrors, PARTITION_ERRORS),
    _kind("acknowledged", Acknowledged, ACKNOWLEDGED),
    _kind("refusal", Refusal, REFUSAL),
)
"""Every message that one broker sends to another."""

_BY_NAME: Final = {kind.name: kind for kind in KINDS}
_BY_CLASS: Final = {kind.message: kind for kind in KINDS}
_pack = msgpack.packb
_unpack = msgpack.unpackb


def answer_class(request: object) -> type[Any] | None:
    """The class of the answers to a message; None for a message without an answer."""
    return _BY_CLASS[type(request)].answer


def encode(message: object) -> Frames:
    """Encode a message of the table."""
    kind = _BY_CLASS[type(message)]
    content, frames = kind.pack(message)
    return [_pack((kind.name, content)), *frames]


def decode(frames: Sequence[bytes]) -> Any:
    """Decode a message and check every field. Raises PeerError, which names the field."""
    try:
        content = _unpack(frames[0])
    except (ValueError, TypeError, IndexError, OverflowError, msgpack.UnpackException) as error:
        raise PeerError(f"not a message: {type(error).__name__}") from error
    if type(content) is not list or len(content) != 2:
        raise PeerError(f"not a message: {described(content)}")
    name, fields = content
    kind = _BY_NAME.get(name) if type(name) is str else None
    if kind is None:
        raise PeerError(f"{described(name)} is not a kind of message")
    try:
        return kind.read(fields, frames[1:])
    except Malformed as error:
        raise PeerError(f"malformed {name}: {error}") from error
