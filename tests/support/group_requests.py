"""Group requests of any version, and what tests read in the answers; a member of a group."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import HandlerStage, StageConnection
from tests.support.kafka_wire import request

NEWEST: Mapping[ApiKey, int] = {
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 10,
    ApiKey.OFFSET_FETCH: 10,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.DELETE_GROUPS: 2,
}
SESSION_MS = 10_000
REBALANCE_MS = 60_000
_FIRST_WITH_TOPIC_IDS = 10
_FIRST_WITH_GROUPS = 8


def _version(key: ApiKey, version: int | None) -> int:
    return NEWEST[key] if version is None else version


def topic_id(name: str) -> uuid.UUID:
    """The id that `a_topic` gives."""
    return a_topic(name).topic_id


def find_coordinator(*groups: str, version: int | None = None, key_type: int = 0) -> Any:
    """FindCoordinator of one group, or of several."""
    return request(
        ApiKey.FIND_COORDINATOR,
        _version(ApiKey.FIND_COORDINATOR, version),
        key=groups[0],
        key_type=key_type,
        coordinator_keys=groups,
    )


def join_group(
    group: str,
    member: str = "",
    *,
    version: int | None = None,
    instance: str | None = None,
    protocols: Mapping[str, bytes] | None = None,
    session_ms: int = SESSION_MS,
    protocol_type: str = "consumer",
) -> Any:
    """JoinGroup of a member that supports `range`, unless told otherwise."""
    return request(
        ApiKey.JOIN_GROUP,
        _version(ApiKey.JOIN_GROUP, version),
        group_id=group,
        session_timeout=session_ms,
        rebalance_timeout=REBALANCE_MS,
        member_id=member,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[
            {"name": name, "metadata": metadata}
            for name, metadata in (protocols or {"range": b"subscription"}).items()
        ],
        reason=None,
    )


def sync_group(
    group: str,
    member: str,
    generation: int,
    assignments: Mapping[str, bytes] | None = None,
    *,
    version: int | None = None,
    protocol: str | None = "range",
    instance: str | None = None,
) -> Any:
    """SyncGroup; assignments by member id."""
    return request(
        ApiKey.SYNC_GROUP,
        _version(ApiKey.SYNC_GROUP, version),
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name=protocol,
        assignments=[
            {"member_id": each, "assignment": assignment}
            for each, assignment in (assignments or {}).items()
        ],
    )


def heartbeat(group: str, member: str, generation: int, *, version: int | None = None) -> Any:
    """Heartbeat."""
    return request(
        ApiKey.HEARTBEAT,
        _version(ApiKey.HEARTBEAT, version),
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=None,
    )


def leave_group(group: str, *members: str, version: int | None = None) -> Any:
    """LeaveGroup of one member, or of several."""
    return request(
        ApiKey.LEAVE_GROUP,
        _version(ApiKey.LEAVE_GROUP, version),
        group_id=group,
        member_id=members[0],
        members=[
            {"member_id": member, "group_instance_id": None, "reason": None} for member in members
        ],
    )


def commit_offsets(
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    member: str = "",
    generation: int = -1,
    version: int | None = None,
    metadata: str | None = "",
) -> Any:
    """OffsetCommit of offsets by topic and partition."""
    return request(
        ApiKey.OFFSET_COMMIT,
        _version(ApiKey.OFFSET_COMMIT, version),
        group_id=group,
        generation_id=generation,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=None,
        retention_time=-1,
        topics=[
            {
                "name": topic,
                "topic_id": topic_id(topic),
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": offset,
                        "committed_leader_epoch": 3,
                        "committed_metadata": metadata,
                    }
                ],
            }
            for (topic, number), offset in offsets.items()
        ],
    )


def fetch_offsets(
    group: str,
    partitions: Iterable[tuple[str, int]] | None,
    *,
    version: int | None = None,
) -> Any:
    """OffsetFetch of partitions; None for all that the group has."""
    version = _version(ApiKey.OFFSET_FETCH, version)
    topics: list[dict[str, Any]] | None = None
    if partitions is not None:
        topics = [
            {"name": topic, "topic_id": topic_id(topic), "partition_indexes": [number]}
            for topic, number in partitions
        ]
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
    whole = {"group_id": group, "topics": topics} if version < _FIRST_WITH_GROUPS else {}
    return request(ApiKey.OFFSET_FETCH, version, groups=[asked], require_stable=False, **whole)


def fetched_in(answer: Any) -> tuple[int, dict[tuple[str | uuid.UUID, int], tuple[int, int]]]:
    """The code of an OffsetFetch answer about one group; offset and code by partition."""
    group = answer.groups[0] if hasattr(answer, "groups") else answer
    found = {
        (getattr(topic, "topic_id", None) or topic.name, each.partition_index): (
            each.committed_offset,
            int(each.error_code),
        )
        for topic in group.topics
        for each in topic.partitions
    }
    return int(getattr(group, "error_code", 0)), found


def committed_in(answer: Any) -> list[int]:
    """The codes of an OffsetCommit answer, in order."""
    return [int(each.error_code) for topic in answer.topics for each in topic.partitions]


def list_groups(
    states: Iterable[str] = (), types: Iterable[str] = (), *, version: int | None = None
) -> Any:
    """ListGroups."""
    return request(
        ApiKey.LIST_GROUPS,
        _version(ApiKey.LIST_GROUPS, version),
        states_filter=list(states),
        types_filter=list(types),
    )


def describe_groups(*groups: str, version: int | None = None, operations: bool = False) -> Any:
    """DescribeGroups."""
    return request(
        ApiKey.DESCRIBE_GROUPS,
        _version(ApiKey.DESCRIBE_GROUPS, version),
        groups=list(groups),
        include_authorized_operations=operations,
    )


def delete_groups(*groups: str, version: int | None = None) -> Any:
    """DeleteGroups."""
    return request(
        ApiKey.DELETE_GROUPS, _version(ApiKey.DELETE_GROUPS, version), groups_names=list(groups)
    )


def delete_offsets(group: str, *partitions: tuple[str, int]) -> Any:
    """OffsetDelete."""
    return request(
        ApiKey.OFFSET_DELETE,
        0,
        group_id=group,
        topics=[
            {"name": topic, "partitions": [{"partition_index": number}]}
            for topic, number in partitions
        ],
    )


def lead_offsets_topic(
    stage: HandlerStage, partitions: int = 1, replicas: Iterable[int] = (1,), **state: Any
) -> None:
    """The stage's broker leads every partition of `__consumer_offsets`, unless told otherwise."""
    each = a_partition(replicas, **state)
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, *[each] * partitions))
    for _ in range(3):
        stage.turn()


class Member:
    """One consumer on a connection of its own: joins, syncs as leader or not, beats, leaves."""

    def __init__(self, stage: HandlerStage, group: str = "g") -> None:
        self._stage = stage
        self.group = group
        self.connection: StageConnection = stage.connect()
        self.id = ""
        self.generation = -1
        self.leader = ""
        self.others: list[str] = []

    def join(self, **options: Any) -> Any:
        """Join with a known id; None while the others are waited for."""
        answer = self.connection.call(join_group(self.group, self.id, **options))
        if answer is not None and answer.error_code == 79:
            self.id = answer.member_id
            answer = self.connection.call(join_group(self.group, self.id, **options))
        return self.joined(answer)

    def joined(self, answer: Any) -> Any:
        """Take in the answer to a JoinGroup that had to wait."""
        if answer is not None and answer.error_code == 0:
            self.id, self.generation = answer.member_id, answer.generation_id
            self.leader = answer.leader
            self.others = [member.member_id for member in answer.members]
        return answer

    def sync(self) -> Any:
        """Ask for the assignment; as the leader, give each member its own id as assignment."""
        assignments = {each: each.encode() for each in self.others}
        return self.connection.call(sync_group(self.group, self.id, self.generation, assignments))

    def beat(self) -> int:
        """The code of a heartbeat."""
        answer = self.connection.call(heartbeat(self.group, self.id, self.generation))
        return int(answer.error_code)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> Any:
        """Commit as a member; None while it is not confirmed."""
        return self.connection.call(
            commit_offsets(self.group, offsets, member=self.id, generation=self.generation)
        )
