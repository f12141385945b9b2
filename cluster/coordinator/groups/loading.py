"""Replays the records of the partition as groups and offsets. Pure.

Kafka: `GroupCoordinatorShard.replay`. No record may stop the loading: one that cannot be decoded is
counted and ignored.
"""

from collections import Counter

from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.consumer.loading import ConsumerLoading
from cluster.coordinator.groups.consumer.records import CONSUMER_KEYS, read_consumer_key
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.offsets.commits import OffsetCommits
from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.groups.shared.records import (
    StoredMember,
    read_group_value,
    read_key,
    read_offset_value,
)
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_storage import restore
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord
from cluster.coordinator.shards.load_report import LoadReport
from cluster.model.clocks import Moment
from cluster.model.ids import NO_PRODUCER_ID


class Loading:
    """Lifecycle: `replay` for every record, oldest first; then `finish`."""

    def __init__(
        self,
        parts: ShardParts,
        rebalancing: Rebalancing,
        commits: OffsetCommits,
        consumers: ConsumerLoading,
    ) -> None:
        self._consumers = consumers
        self._groups = parts.groups
        self._max_size = parts.options.max_size
        self._rebalancing = rebalancing
        self._commits = commits
        self._report = LoadReport()
        self._offset_count = 0
        self._group_count = 0
        self._tombstone_count = 0
        self._of_interest: set[str] = set()
        """Groups that have had members, or whose records were deleted: `finish` checks them."""

    @property
    def report(self) -> LoadReport:
        """What the records replayed so far were. Each record of the newer consumer protocol counts
        as a group."""
        self._report.loaded = +Counter(
            offsets=self._offset_count,
            groups=self._group_count,
            tombstones=self._tombstone_count,
        )
        return self._report

    def finish(self, now: Moment) -> None:
        """All records were replayed: start the sessions of members, and remove empty groups."""
        self._consumers.finish(now)
        for group_id in sorted(self._of_interest):
            group = self._groups.get(group_id)
            if group is None:  # its offsets are those of a group of the newer consumer protocol
                continue
            if group.is_disposable:
                del self._groups[group_id]
                continue
            group.update_subscribed_topics()
            group.start_times(now)
            for member in group.members.values():
                self._rebalancing.restart_session(member, now)
            if len(group.members) > self._max_size:
                cause = Cause(CauseKind.OVER_CAPACITY)
                self._rebalancing.prepare(group, cause, now)
        self._of_interest.clear()

    def replay(self, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        """Apply one record."""
        try:
            if key is None:
                raise CorruptRecord("no key")
            if key[:2] in CONSUMER_KEYS:
                self._load_consumer(key, value)
                return
            named = read_key(key)
            if isinstance(named, str):
                self._load_group(named, value)
            elif value is None:
                self._remove_offset(*named)
            else:
                self._load_offset(*named, value, producer_id)
        except UnknownRecord as unknown:
            self._report.note_unknown(str(unknown))
        except CorruptRecord as corrupt:
            self._report.note_corrupt(str(corrupt))

    def _load_consumer(self, key: bytes, value: bytes | None) -> None:
        self._consumers.load(read_consumer_key(key), value)
        if value is None:
            self._tombstone_count += 1
        else:
            self._group_count += 1

    def _load_offset(
        self, group_id: str, topic: str, partition: int, value: bytes, producer_id: int
    ) -> None:
        committed = read_offset_value(value)
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id)
        self._offset_count += 1
        if producer_id == NO_PRODUCER_ID:
            group.offsets.set(topic, partition, committed)
        else:
            self._commits.note_transactional(producer_id, group, (topic, partition, committed))

    def _remove_offset(self, group_id: str, topic: str, partition: int) -> None:
        self._tombstone_count += 1
        group = self._groups.get(group_id)
        if group is not None:
            group.offsets.remove(topic, partition)
            self._of_interest.add(group_id)

    def _load_group(self, group_id: str, value: bytes | None) -> None:
        stored = None if value is None else read_group_value(value)
        group = self._groups.get(group_id)
        if stored is None:
            self._tombstone_count += 1
            if group is not None:
                group.clear()
                self._of_interest.add(group_id)
            return
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id)
        self._group_count += 1
        protocol_name = stored.protocol_name or ""
        unique = {each.member_id: each for each in stored.members}
        members = [self._member(group, each, protocol_name) for each in unique.values()]
        restore(group, stored, members)
        self._of_interest.add(group_id)

    def _member(self, group: ClassicGroup, stored: StoredMember, protocol_name: str) -> Member:
        member = Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.rebalance_timeout_ms,
            stored.session_timeout_ms,
            (GroupProtocol(protocol_name, stored.subscription),),
            stored.assignment,
        )
        self._rebalancing.new_member(group, member)
        return member
