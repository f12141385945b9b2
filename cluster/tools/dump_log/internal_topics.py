"""Keys and values of `__consumer_offsets` and `__transaction_state` as texts. Pure.

The first are JSON, the second Kafka's own notation, each as its tool prints them.
"""

import json
from base64 import b64decode
from typing import Any, Final, NamedTuple

from cluster.tools.dump_log.schemas import Field, Malformed, Many, Structure, read_structure
from cluster.tools.stored_batches import Read, Unreadable

_DELETED: Final = "<DELETE>"
_VERSION_BYTES: Final = 2
_CONSUMER: Final = "consumer"

_TOPIC_PARTITIONS: Final = Many(
    (Field("topicId", "uuid"), Field("partitions", Many("int32"))),
)
_OWN_VERSION: Final = range(1)


class _Kind(NamedTuple):
    """A kind of record; the version of its key is its number."""

    key: tuple[Field, ...]
    value: Structure


_OFFSET_COMMIT: Final = _Kind(
    (Field("group", "string"), Field("topic", "string"), Field("partition", "int32")),
    Structure(
        (
            Field("offset", "int64"),
            Field("leaderEpoch", "int32", since=3),
            Field("metadata", "string"),
            Field("commitTimestamp", "int64"),
            Field("expireTimestamp", "int64", since=1, until=1),
        ),
        versions=range(5),
        flexible_since=4,
    ),
)
_GROUP: Final = _Kind(
    (Field("group", "string"),),
    Structure(
        (
            Field("protocolType", "string"),
            Field("generation", "int32"),
            Field("protocol", "string"),
            Field("leader", "string"),
            Field("currentStateTimestamp", "int64", since=2),
            Field(
                "members",
                Many(
                    (
                        Field("memberId", "string"),
                        Field("groupInstanceId", "string", since=3),
                        Field("clientId", "string"),
                        Field("clientHost", "string"),
                        Field("rebalanceTimeout", "int32", since=1),
                        Field("sessionTimeout", "int32"),
                        Field("subscription", "bytes"),
                        Field("assignment", "bytes"),
                    )
                ),
            ),
        ),
        versions=range(5),
        flexible_since=4,
    ),
)
_GROUP_ID: Final = (Field("groupId", "string"),)
_MEMBER_ID: Final = (*_GROUP_ID, Field("memberId", "string"))


def _of_new_protocol(key: tuple[Field, ...], *fields: Field) -> _Kind:
    return _Kind(key, Structure(fields, _OWN_VERSION, flexible_since=0))


_GROUP_RECORDS: Final = {
    0: _OFFSET_COMMIT,
    1: _OFFSET_COMMIT,
    2: _GROUP,
    # The consumer groups of KIP-848.
    3: _of_new_protocol(_GROUP_ID, Field("epoch", "int32")),
    4: _of_new_protocol(
        _GROUP_ID,
        Field(
            "topics",
            Many(
                (
                    Field("topicId", "uuid"),
                    Field("topicName", "string"),
                    Field("numPartitions", "int32"),
                    Field(
                        "partitionMetadata",
                        Many((Field("partition", "int32"), Field("racks", Many("string")))),
                    ),
                )
            ),
        ),
    ),
    5: _of_new_protocol(
        _MEMBER_ID,
        Field("instanceId", "string"),
        Field("rackId", "string"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", Many("string")),
        Field("subscribedTopicRegex", "string"),
        Field("rebalanceTimeoutMs", "int32"),
        Field("serverAssignor", "string"),
        Field(
            "classicMemberMetadata",
            (
                Field("sessionTimeoutMs", "int32"),
                Field(
                    "supportedProtocols",
                    Many((Field("name", "string"), Field("metadata", "bytes"))),
                ),
            ),
            tag=0,
        ),
    ),
    6: _of_new_protocol(_GROUP_ID, Field("assignmentEpoch", "int32")),
    7: _of_new_protocol(_MEMBER_ID, Field("topicPartitions", _TOPIC_PARTITIONS)),
    8: _of_new_protocol(
        _MEMBER_ID,
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field("assignedPartitions", _TOPIC_PARTITIONS),
        Field("partitionsPendingRevocation", _TOPIC_PARTITIONS),
    ),
}
_OWNED: Final = Many((Field("topic", "string"), Field("partitions", Many("int32"))))
_INSIDE_MEMBERS: Final = {
    "subscription": Structure(
        (
            Field("topics", Many("string")),
            Field("userData", "bytes"),
            Field("ownedPartitions", _OWNED, since=1),
            Field("generationId", "int32", since=2),
            Field("rackId", "string", since=3),
        ),
        versions=range(4),
    ),
    "assignment": Structure(
        (Field("assignedPartitions", _OWNED), Field("userData", "bytes")), versions=range(4)
    ),
}
"""What the clients' own protocol puts into the bytes of a consumer group's members."""

_TRANSACTION_KEY: Final = Structure((Field("transactionalId", "string"),), _OWN_VERSION)
_TRANSACTION: Final = Structure(
    (
        Field("producerId", "int64"),
        Field("producerEpoch", "int16"),
        Field("timeoutMs", "int32"),
        Field("status", "int8"),
        Field("partitions", Many((Field("topic", "string"), Field("ids", Many("int32"))))),
        Field("lastUpdateMs", "int64"),
        Field("startMs", "int64"),
    ),
    versions=range(2),
    flexible_since=1,
)
_TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def decoded_offsets(read: Read) -> tuple[str | None, str | None]:
    """Key and value of a record of `__consumer_offsets`. Raises Unreadable without a key."""
    record = read.record
    if record.key is None:
        raise Unreadable(
            f"Failed to decode message at offset {record.offset} using offset topic decoder"
            " (message had a missing key)"
        )
    try:
        number = _version(record.key, "key")
        kind = _GROUP_RECORDS.get(number)
        if kind is None:
            return f"Unknown record type {number} at offset {record.offset}, skipping.", None
        key = _structure(Structure(kind.key, range(number + 1)), record.key, number, "key")
        return (
            _json({"type": str(number), "data": key}),
            _DELETED if record.value is None else _group_value(kind, record.value),
        )
    except Malformed as problem:
        return f"Error at offset {record.offset}, skipping. {problem}", None


def _group_value(kind: _Kind, value: bytes) -> str:
    version = _version(value, "value")
    data = _structure(kind.value, value, version, "value")
    if data.get("protocolType") == _CONSUMER:
        for member in data["members"]:
            for name, structure in _INSIDE_MEMBERS.items():
                member[name] = _inside(structure, member[name])
    return _json({"version": str(version), "data": data})


def _inside(structure: Structure, text: str) -> Any:
    """What the bytes in this base64 say; the text itself where they say nothing."""
    content = b64decode(text)
    try:
        version = max(0, min(_version(content, "member"), structure.versions[-1]))
        return read_structure(structure, content[_VERSION_BYTES:], version)
    except Malformed:
        return text


def decoded_transactions(read: Read) -> tuple[str | None, str | None]:
    """Key and value of a record of `__transaction_state`. Raises Unreadable for a damaged one."""
    record = read.record
    try:
        number = _version(record.key or b"", "key")
        if number not in _TRANSACTION_KEY.versions:
            return f"unknown::version={number}", None
        key = _structure(_TRANSACTION_KEY, record.key or b"", number, "key")
        name = f"transaction_metadata::transactionalId={key['transactionalId']}"
        if record.value is None:
            return name, _DELETED
        version = _version(record.value, "value")
        found = _structure(_TRANSACTION, record.value, version, "value")
        state = _TRANSACTION_STATES[found["status"]]
    except (Malformed, IndexError) as problem:
        raise Unreadable(f"record at offset {record.offset}: {problem}") from None
    # In the order in which they are stored; Kafka's tool lists them in that of a hash table.
    partitions = ",".join(
        f"{each['topic']}-{number}" for each in found["partitions"] or () for number in each["ids"]
    )
    return name, (
        f"producerId:{found['producerId']},producerEpoch:{found['producerEpoch']},state={state},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={found['lastUpdateMs']},"
        f"txnTimeoutMs={found['timeoutMs']}"
    )


def _version(data: bytes, what: str) -> int:
    if len(data) < _VERSION_BYTES:
        raise Malformed(f"Could not read version from {what}'s buffer.")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)


def _structure(structure: Structure, data: bytes, version: int, what: str) -> dict[str, Any]:
    try:
        return read_structure(structure, data[_VERSION_BYTES:], version)
    except Malformed as problem:
        raise Malformed(
            f"Could not read record with version {version} from {what}'s buffer due to: {problem}."
        ) from None


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
