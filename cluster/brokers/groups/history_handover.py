"""Hands what is known of groups' rebalances to the broker that coordinates the groups next.

Nothing depends on it but `groups explain`: what gets lost is missing there, and it says so.
"""

import logging
from collections.abc import Mapping
from typing import Final

from cluster.brokers.groups.former_histories import FormerHistories
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.groups.history.explanation import FormerStint, pack_kept, read_kept
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.shared.partitioner import partition_of
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.peer.control import Acknowledged, KeepHistories, Refusal
from cluster.runtime.clock import Clock

log = logging.getLogger(__name__)

BYTES_MAX: Final = 128 * 1024
"""Of one message: packing it takes a millisecond. Of a partition with more, the groups that
rebalanced longest ago stay behind."""
_TIMEOUT_MS: Final = 5_000


class HistoryHandover:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        former: FormerHistories,
        metadata: MetadataCache,
        link: ControlLink,
        clock: Clock,
    ) -> None:
        self._local_id = local_id
        self._former = former
        self._metadata = metadata
        self._link = link
        self._clock = clock

    def on_unloaded(
        self,
        partition: TopicPartition,
        since_ms: WallMs,
        histories: Mapping[str, tuple[Rebalance, ...]],
    ) -> None:
        """This broker led the partition since then, and does no longer: keep what it knows of its
        groups, and hand it on with what earlier leaders had handed to it."""
        until_ms = self._clock.wall_ms()
        for group_id, rebalances in sorted(histories.items(), key=_newest):
            stint = FormerStint(self._local_id, since_ms, until_ms, rebalances)
            self._former.keep(partition.partition, group_id, [stint])
        self._hand_on(partition)

    def _hand_on(self, partition: TopicPartition) -> None:
        state = self._metadata.partition(partition)
        leader = None if state is None else self._metadata.brokers.get(state.leader)
        if leader is None or leader.id == self._local_id:
            return
        packed: list[bytes] = []
        left_bytes = BYTES_MAX
        for history in self._former.of_partition(partition.partition):
            content = pack_kept(history)
            left_bytes -= len(content)
            if left_bytes < 0:
                break
            packed.append(content)
        if packed:
            message = KeepHistories(tuple(packed))
            self._link.ask(leader.control_endpoint, message, lambda _answer: None, _TIMEOUT_MS)

    def on_request(self, request: KeepHistories, reply: Reply) -> None:
        """A peer's histories."""
        topic = self._metadata.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None or not topic.partitions:
            reply(Refusal(ErrorCode.unknown_topic_or_partition, "there are no groups here"))
            return
        try:
            histories = [read_kept(content) for content in request.histories]
        except PeerError as error:
            reply(Refusal(ErrorCode.invalid_request, str(error)))
            return
        for history in reversed(histories):  # the newest come first, and are to stay for longest
            number = partition_of(history.group_id, len(topic.partitions))
            self._former.keep(number, history.group_id, history.stints)
        reply(Acknowledged(ErrorCode.none))


def _newest(history: tuple[str, tuple[Rebalance, ...]]) -> WallMs:
    return history[1][-1].started_wall_ms
