"""The JSON that Kafka keeps in znodes (2.7-3.x, ZooKeeper mode), to and from our own types. Pure.

Every decoder raises ValueError for any other document. Source: `kafka.zk.ZkData`.
"""

import base64
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cluster.coordinator.registry.documents import paths
from cluster.coordinator.registry.documents.log_conditions import decode_condition, encode_condition
from cluster.model.acls import (
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration, DoubtfulLog, Endpoint
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicPartition,
    decode_uuid,
    encode_uuid,
)
from cluster.model.log_condition import INTACT

Replicas = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """`/brokers/topics/[t]`: the replicas of each partition, and those being added and removed."""

    topic_id: uuid.UUID | None
    """None: written by a Kafka before 2.8."""
    replicas: Mapping[int, Replicas]
    adding: Mapping[int, Replicas] = field(default_factory=dict)
    removing: Mapping[int, Replicas] = field(default_factory=dict)


class PartitionStateRecord(NamedTuple):
    """`/brokers/topics/[t]/partitions/[n]/state`."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    controller_epoch: ControllerEpoch
    eligible: Replicas = ()
    doubtful: tuple[DoubtfulLog, ...] = ()


class ProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block`: producer ids [first, last + 1) belong to the broker."""

    broker_id: BrokerId
    first: int
    last: int


def encode_broker(registration: BrokerRegistration, timestamp_ms: int) -> bytes:
    """`/brokers/ids/[id]`. Fields that only our brokers have are below `milena`; host and port are
    those of the first PLAINTEXT endpoint, as old clients of the registry expect.
    """
    plaintext = next(
        (one for one in registration.endpoints if one.security_protocol == "PLAINTEXT"), None
    )
    own: dict[str, object] = {
        "control": registration.control_endpoint,
        "replication": registration.replication_endpoint,
        "machine": registration.machine,
    }
    if registration.condition != INTACT:
        own["logs"] = encode_condition(registration.condition)
    document = {
        "version": 5,
        "host": plaintext.host if plaintext else None,
        "port": plaintext.port if plaintext else -1,
        "endpoints": [
            f"{one.listener}://{_bracketed(one.host)}:{one.port}" for one in registration.endpoints
        ],
        "listener_security_protocol_map": {
            one.listener: one.security_protocol for one in registration.endpoints
        },
        "rack": registration.rack,
        "jmx_port": -1,
        "timestamp": str(timestamp_ms),
        "features": {},
        "milena": own,
    }
    if registration.rack is None:
        del document["rack"]
    return _encode(document)


def decode_broker_id(name: str) -> BrokerId:
    """The broker id of a child of `/brokers/ids`."""
    broker_id = BrokerId(_int32(name))
    if broker_id < 0:
        raise ValueError(f"{broker_id} is not a broker's id")
    return broker_id


def decode_broker(broker_id: BrokerId, document: bytes, epoch: BrokerEpoch) -> BrokerRegistration:
    """A broker's registration; `epoch` is the czxid of its znode. For a broker of another product
    the fields of our own are empty.
    """
    with _fields(document) as fields:
        protocols = fields.get("listener_security_protocol_map", {})
        endpoints = tuple(
            _decode_endpoint(endpoint, protocols) for endpoint in fields.get("endpoints", ())
        )
        own = fields.get("milena", {})
        rack = fields.get("rack")
        return BrokerRegistration(
            id=broker_id,
            epoch=epoch,
            endpoints=endpoints,
            rack=None if rack is None else str(rack),
            control_endpoint=str(own.get("control", "")),
            replication_endpoint=str(own.get("replication", "")),
            machine=str(own.get("machine", "")),
            condition=decode_condition(own["logs"]) if "logs" in own else INTACT,
        )


def encode_topic(assignment: TopicAssignment) -> bytes:
    """`/brokers/topics/[t]`, version 3 (version 2 without a topic id)."""
    document: dict[str, object] = {
        "version": 2 if assignment.topic_id is None else 3,
        "partitions": _encode_replicas(assignment.replicas),
        "adding_replicas": _encode_replicas(assignment.adding),
        "removing_replicas": _encode_replicas(assignment.removing),
    }
    if assignment.topic_id is not None:
        document["topic_id"] = encode_uuid(assignment.topic_id)
    return _encode(document)


def decode_topic(document: bytes) -> TopicAssignment:
    with _fields(document) as fields:
        topic_id = fields.get("topic_id")
        return TopicAssignment(
            topic_id=None if topic_id is None else decode_uuid(topic_id),
            replicas=_decode_replicas(fields["partitions"]),
            adding=_decode_replicas(fields.get("adding_replicas", {})),
            removing=_decode_replicas(fields.get("removing_replicas", {})),
        )


def encode_partition_state(state: PartitionStateRecord) -> bytes:
    """`/brokers/topics/[t]/partitions/[n]/state`; fields that Kafka has only in KRaft mode, or not
    at all, are below `milena`.
    """
    document: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.eligible or state.doubtful:
        document["milena"] = {
            "eligible": list(state.eligible),
            "doubtful": [list(each) for each in state.doubtful],
        }
    return _encode(document)


def decode_partition_state(document: bytes) -> PartitionStateRecord:
    with _fields(document) as fields:
        own = fields.get("milena", {})
        return PartitionStateRecord(
            leader=BrokerId(_int32(fields["leader"])),
            leader_epoch=LeaderEpoch(_not_negative(fields["leader_epoch"])),
            isr=_decode_broker_ids(fields["isr"]),
            controller_epoch=ControllerEpoch(_int32(fields["controller_epoch"])),
            eligible=_decode_broker_ids(own.get("eligible", [])),
            doubtful=tuple(
                DoubtfulLog(BrokerId(_int32(broker)), LeaderEpoch(_int32(epoch)), _end(end))
                for broker, epoch, end in own.get("doubtful", [])
            ),
        )


def encode_reassignments(targets: Mapping[TopicPartition, Replicas]) -> bytes:
    """`/admin/reassign_partitions`: the replicas that partitions should have."""
    return _encode(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(replicas)}
                for (topic, number), replicas in targets.items()
            ],
        }
    )


def decode_reassignments(document: bytes) -> dict[TopicPartition, Replicas]:
    """The last entry of a partition counts, as in Kafka."""
    with _fields(document) as fields:
        _check_version(fields)
        return {
            _decode_partition(each): _decode_broker_ids(each["replicas"])
            for each in fields["partitions"]
        }


def decode_elections(document: bytes) -> tuple[TopicPartition, ...]:
    """`/admin/preferred_replica_election`: partitions whose preferred replicas should lead."""
    with _fields(document) as fields:
        _check_version(fields)
        return tuple(dict.fromkeys(map(_decode_partition, fields["partitions"])))


def encode_controller(broker_id: BrokerId, timestamp_ms: int) -> bytes:
    """`/controller`; the epoch of -1 marks a controller in ZooKeeper mode."""
    return _encode(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(document: bytes) -> BrokerId:
    with _fields(document) as fields:
        return BrokerId(_int32(fields["brokerid"]))


def encode_controller_epoch(epoch: ControllerEpoch) -> bytes:
    """`/controller_epoch`: a decimal number."""
    return str(epoch).encode("ascii")


def decode_controller_epoch(document: bytes) -> ControllerEpoch:
    return ControllerEpoch(_int32(document or b""))


def encode_cluster_id(cluster_id: str) -> bytes:
    """`/cluster/id`."""
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(document: bytes) -> str:
    with _fields(document) as fields:
        return str(fields["id"])


def encode_login_secret(secret: bytes) -> bytes:
    """`/cluster/login_secret`."""
    return _encode({"version": 1, "secret": base64.b64encode(secret).decode("ascii")})


def decode_login_secret(document: bytes) -> bytes:
    """The error does not contain the secret."""
    with _fields(document) as fields:
        secret = base64.b64decode(fields["secret"], validate=True)
    if len(secret) < 16:
        raise ValueError("a login secret has 16 bytes at least")
    return secret


def encode_token(token: DelegationToken) -> bytes:
    """`/delegation_token/tokens/[id]`."""
    return _encode(
        {
            "version": 3,
            "owner": paths.sanitized(token.owner),
            "tokenRequester": paths.sanitized(token.requester),
            "renewers": [paths.sanitized(each) for each in token.renewers],
            "issueTimestamp": token.issued_at,
            "maxTimestamp": token.max_at,
            "expiryTimestamp": token.expires_at,
            "tokenId": token.token_id,
        }
    )


def decode_token(document: bytes) -> DelegationToken:
    """Before version 3 (Kafka 3.3) the owner is the requester."""
    with _fields(document) as fields:
        if fields["version"] not in (1, 2, 3):
            raise ValueError(f"version {fields['version']} of a token is not known")
        owner = paths.desanitized(fields["owner"])
        requester = fields.get("tokenRequester")
        return DelegationToken(
            str(fields["tokenId"]),
            owner,
            owner if requester is None else paths.desanitized(requester),
            tuple(paths.desanitized(each) for each in fields["renewers"]),
            WallMs(int(fields["issueTimestamp"])),
            WallMs(int(fields["maxTimestamp"])),
            WallMs(int(fields["expiryTimestamp"])),
        )


def encode_entity_config(config: Mapping[str, str]) -> bytes:
    """`/config/[kind]/[name]`."""
    return _encode({"version": 1, "config": dict(config)})


def decode_entity_config(document: bytes) -> dict[str, str]:
    """An entity's overrides; an empty znode has none."""
    if not document:
        return {}
    with _fields(document) as fields:
        return {str(name): str(value) for name, value in fields["config"].items()}


def encode_config_change(entity_path: str) -> bytes:
    """`/config/changes/config_change_N`: names the entity as `paths.entity_path` does."""
    return _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(document: bytes) -> str:
    """The path of the changed entity."""
    with _fields(document) as fields:
        return str(fields["entity_path"])


def encode_log_directories(generations: Mapping[str, int]) -> bytes:
    """`/milena/log_directories/[id]`: the generation of each directory id."""
    return _encode({"version": 1, "directories": dict(generations)})


def decode_log_directories(document: bytes) -> dict[str, int]:
    with _fields(document) as fields:
        return {str(one): int(number) for one, number in fields["directories"].items()}


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """`/latest_producer_id_block`; 64-bit numbers are strings, since JSON readers round them."""
    return _encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(document: bytes) -> ProducerIdBlock:
    """The block that was handed out last."""
    with _fields(document) as fields:
        return ProducerIdBlock(
            BrokerId(int(fields["broker"])), int(fields["block_start"]), int(fields["block_end"])
        )


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    """`/kafka-acl/[type]/[name]`."""
    listed = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission.label,
            "operation": entry.operation.label,
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return _encode({"version": 1, "acls": listed})


def decode_acls(document: bytes) -> frozenset[AclEntry]:
    """The rules for one pattern; an empty znode has none."""
    if not document:
        return frozenset()
    with _fields(document) as fields:
        if fields["version"] != 1:
            raise ValueError(f"ACLs of version {fields['version']!r}")
        return frozenset(map(_decode_acl, fields["acls"]))


def encode_acl_change(pattern: ResourcePattern) -> bytes:
    """`/kafka-acl-changes/acl_changes_N`, which is plain text, and
    `/kafka-acl-extended-changes/acl_changes_N`.
    """
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.resource_type.label}:{pattern.name}".encode()
    return _encode(
        {
            "version": 1,
            "resourceType": pattern.resource_type.label,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_acl_change(pattern_type: PatternType, document: bytes) -> ResourcePattern:
    """The pattern whose rules have changed."""
    if pattern_type is PatternType.LITERAL:
        kind, colon, name = document.decode("utf-8").partition(":")
        if not colon:
            raise ValueError(f"not type:name: {document[:200]!r}")
        return ResourcePattern(ResourceType.of_label(kind), name, pattern_type)
    with _fields(document) as fields:
        if PatternType.of_label(fields["patternType"]) is not pattern_type:
            raise ValueError(f"not of {pattern_type.name} patterns: {document[:200]!r}")
        kind, name = str(fields["resourceType"]), str(fields["name"])
        return ResourcePattern(ResourceType.of_label(kind), name, pattern_type)


@contextmanager
def _fields(document: bytes) -> Iterator[dict[str, Any]]:
    """The fields of a JSON object; any error inside the block becomes a ValueError."""
    try:
        fields = json.loads(document or b"")
    except RecursionError as error:
        raise ValueError(f"too deep a JSON document: {document[:80]!r}") from error
    if b"\\u" in document:
        # Half a surrogate pair is valid JSON, but cannot be encoded when it is sent on.
        json.dumps(fields, ensure_ascii=False).encode("utf-8")
    if not isinstance(fields, dict):
        raise ValueError(f"not a JSON object: {document[:80]!r}")  # noqa: TRY004 - wrong text
    try:
        yield fields
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"unexpected document {document[:200]!r}") from error


def _decode_acl(fields: Mapping[str, Any]) -> AclEntry:
    entry = AclEntry(
        str(fields["principal"]),
        str(fields["host"]),
        AclOperation.of_label(fields["operation"]),
        AclPermission.of_label(fields["permissionType"]),
    )
    if min(entry.operation, entry.permission) <= AclOperation.ANY:
        raise ValueError(f"no rule: {fields!r}")
    return entry


def _encode(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("utf-8")


def _encode_replicas(replicas: Mapping[int, Replicas]) -> dict[str, list[BrokerId]]:
    return {str(index): list(replicas[index]) for index in sorted(replicas)}


def _decode_replicas(replicas: Mapping[str, list[int]]) -> dict[int, Replicas]:
    return {_not_negative(index): _decode_broker_ids(ids) for index, ids in replicas.items()}


def _decode_broker_ids(ids: list[int]) -> Replicas:
    if not isinstance(ids, list):  # a text of digits would be read as several ids
        raise ValueError(f"{ids!r} is not a list of broker ids")  # noqa: TRY004 - wrong text
    return tuple(BrokerId(_int32(one)) for one in ids)


def _decode_partition(fields: Mapping[str, Any]) -> TopicPartition:
    topic = fields["topic"]
    if not isinstance(topic, str):
        raise ValueError(f"{topic!r} is not the name of a topic")  # noqa: TRY004 - wrong text
    return TopicPartition(topic, _int32(fields["partition"]))


def _check_version(fields: Mapping[str, Any]) -> None:
    if (version := fields.get("version", 1)) != 1:
        raise ValueError(f"its version is {version!r} instead of 1")


def _int32(number: float | str | bytes) -> int:
    """Raises ValueError for a number that does not fit into a message to a broker or client."""
    whole = int(number)
    if not -(2**31) <= whole < 2**31:
        raise ValueError(f"{whole} is not a 32-bit number")
    return whole


def _not_negative(number: float | str | bytes) -> int:
    whole = _int32(number)
    if whole < 0:
        raise ValueError(f"{whole} is negative")
    return whole


def _offset(number: float | str | bytes) -> Offset:
    whole = int(number)
    if not 0 <= whole < 2**63:
        raise ValueError(f"{whole} is not an offset")
    return Offset(whole)


def _end(number: float | str | bytes) -> Offset:
    """An offset, or -1."""
    return Offset(-1) if number == -1 else _offset(number)


def _decode_endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return Endpoint(listener, str(protocols.get(listener, listener)), host, _int32(port))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
