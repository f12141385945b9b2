"""Messages between brokers, well formed, and ways to make them something else."""

import uuid
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgpack

from cluster.model.cluster import (
    BrokerRegistration,
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
    TopicPartition,
)
from cluster.model.quotas import QuotaClient
from cluster.model.topics import TopicAlteration
from cluster.protocol.peer.control import (
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
    NumberedPartitions,
    PartitionAltered,
    Ping,
    ProduceMetrics,
    Refusal,
    ReportFull,
    ReportOffline,
    ShutdownPrepared,
    TopicOutcome,
    TopicOutcomes,
)
from cluster.protocol.peer.replication import (
    FetchAnswer,
    FetchedPartition,
    FetchPosition,
    FileSource,
    FollowerFetch,
)
from cluster.protocol.peer.transactions import (
    CheckTransactions,
    MarkersOfProducer,
    PartitionErrors,
    TransactionPartitions,
    WriteMarkers,
)

STRANGER: Final = BrokerId(77)
"""No broker of any test has this id."""
_NO_LIFE: Final = BrokerEpoch(2**50)
_STATE: Final = PartitionState(
    (BrokerId(0), BrokerId(1)),
    (BrokerId(0),),
    BrokerId(0),
    LeaderEpoch(3),
    PartitionEpoch(-1),
    adding=(BrokerId(1),),
    removing=(BrokerId(0),),
)

REQUESTS: Final[tuple[Any, ...]] = (
    ClusterUpdate(
        STRANGER,
        ControllerEpoch(1_000_000),
        _NO_LIFE,
        True,
        (
            BrokerRegistration(
                STRANGER,
                _NO_LIFE,
                (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9_092),),
                None,
                "tcp://127.0.0.1:1",
                "tcp://127.0.0.1:2",
                "here",
            ),
        ),
        (TopicState("orders", uuid.UUID(int=7), {"retention.ms": "1"}, {0: _STATE}),),
        ("gone",),
        offline=(OfflinePartitions(BrokerId(0), uuid.UUID(int=7), (0, 3)),),
    ),
    AlterPartition(
        STRANGER,
        _NO_LIFE,
        "orders",
        0,
        (STRANGER, BrokerId(0)),
        LeaderEpoch(0),
        PartitionEpoch(0),
    ),
    CreateTopics((), QuotaClient("nobody", "none")),
    AlterTopicConfigs((TopicAlteration("no-such-topic", False, {"k": None, "l": "v"}),), True),
    ControlledShutdown(STRANGER, _NO_LIFE),
    ReportFull(STRANGER, _NO_LIFE, (OfflinePartitions(STRANGER, uuid.UUID(int=8), (1,)),), "full"),
    ReportOffline(STRANGER, _NO_LIFE, (OfflinePartitions(STRANGER, uuid.UUID(int=8), (1,)),)),
    Ping(7),
    ProduceMetrics(1_000, b"no batch"),
    KeepHistories((b"no history",)),
    AskLogEnds((NumberedPartitions("no-such-topic", (0, 3)),)),
    AskBatches("no-such-topic", uuid.UUID(int=7), 3, 5, 9),
    CheckTransactions(
        (TransactionPartitions("nobody", 2**40, 7, True, (NumberedPartitions("t", (0, 3)),)),)
    ),
    WriteMarkers(
        (
            MarkersOfProducer(
                2**40, 7, 3, False, (NumberedPartitions("no-such-topic", (0, 3)),), (4, 0)
            ),
        )
    ),
)
"""Requests from an unknown broker: in a cluster without broker 77 none of them changes anything."""

ANSWERS: Final[tuple[Any, ...]] = (
    PartitionAltered(ErrorCode.none, (BrokerId(1), BrokerId(2)), PartitionEpoch(4)),
    TopicOutcomes(
        (TopicOutcome("t", ErrorCode.none, None), TopicOutcome("u", ErrorCode.none, "u"))
    ),
    ShutdownPrepared(False),
    LogEnds(((7, -1), ())),
    PartitionErrors(((ErrorCode.none, ErrorCode.producer_fenced), ())),
    Batches(ErrorCode.none, False, 9, b"records"),
    Acknowledged(ErrorCode.stale_broker_epoch),
    Refusal(ErrorCode.invalid_request, "malformed"),
)


def fetch_of(broker: int, topic: str, partitions: int = 1) -> FollowerFetch:
    """A first fetch of these partitions from the beginning of the log."""
    positions = [FetchPosition(topic, number, 0, 0, -1, 0) for number in range(partitions)]
    return FollowerFetch(
        broker, "here", 7, 0, positions, [TopicPartition(topic, 9)], 500, 1 << 20, True
    )


def answer_of(topic: str) -> FetchAnswer:
    """Records in a file, records in a frame, a divergence and an error."""
    none = ErrorCode.none
    path = f"/leader/{topic}-0/00000000000000000000.log"
    return FetchAnswer(
        7,
        0,
        none,
        [
            FetchedPartition(topic, 0, 1, none, 5, 0, None, FileSource(path, 3, 100, 5)),
            FetchedPartition(topic, 1, 1, none, 5, 0, None, b"records"),
            FetchedPartition(topic, 2, 1, none, 5, 0, (1, 5)),
            FetchedPartition(topic, 3, 1, ErrorCode.unknown_topic_or_partition, -1, -1),
            FetchedPartition(topic, 4, 1, none, 5, 0, None, b""),
        ],
    )


STRANGE_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    -2,
    1,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "..",
    "a/b",
    "nl\n2026-01-01 ERROR forged: line",
    "\x1b[31m\0",
    "t" * 300,
    "x" * 70_000,
    b"",
    b"\xff\xfe",
    b"x" * 16,
    [],
    [[]],
    [1],
    ["x"],
    [{}, 0],
    [[{}, 0]],
    {},
    {"k": "v"},
    {"k": {"k": []}},
    msgpack.ExtType(5, b"x"),
    msgpack.Timestamp(5, 6),
)
"""What a field may turn out to hold."""


def paths_of(content: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a tree of lists and dicts there is a value, the tree itself first."""
    yield before
    if isinstance(content, list):
        for at, value in enumerate(content):
            yield from paths_of(value, (*before, at))
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from paths_of(value, (*before, key))


def with_value(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The tree with another value at a place."""
    if not path:
        return value
    changed = content.copy()
    changed[path[0]] = with_value(content[path[0]], path[1:], value)
    return changed


def unpacked(frame: bytes | memoryview) -> Any:
    """The tree of a message's first frame."""
    return msgpack.unpackb(frame)


def packed(content: Any) -> bytes:
    """A first frame of whatever tree."""
    frame: bytes = msgpack.packb(content)
    return frame


def confused(random: Random, frames: list[bytes]) -> list[bytes]:
    """The message with some values, fields, frames or bytes that are not what they should be."""
    content = unpacked(frames[0])
    rest = list(frames[1:])
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        path = random.choice(list(paths_of(content)))
        found = content
        for step in path:
            found = found[step]
        match random.randrange(8):
            case 0 if isinstance(found, list) and found:
                value: Any = found[: random.randrange(len(found))]
            case 1 if isinstance(found, list):
                value = [*found, random.choice(STRANGE_VALUES)]
            case 2 if isinstance(found, list):
                value = found * random.choice((2, 3, 50))
            case 3 if type(found) is int:
                value = max(-(2**63), min(found + random.choice((-1, 1, 2**31, -(2**31))), 2**63))
            case _:
                value = random.choice(STRANGE_VALUES)
        content = with_value(content, path, value)
    first = packed(content)
    match random.randrange(12):
        case 0 if rest:
            rest.pop(random.randrange(len(rest)))
        case 1:
            rest.append(random.randbytes(random.randrange(50)))
        case 2:
            first = first[: random.randrange(len(first) + 1)]
        case 3:
            at = random.randrange(len(first) + 1)
            first = first[:at] + random.randbytes(random.randrange(4)) + first[at + 1 :]
        case _:
            pass
    return [first, *rest]
