"""Sends the known rebalances of groups to the broker that coordinates the groups next.

Only `groups explain` uses them; it reports a gap where some were lost.
"""

import logging
from typing import Final

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.groups.former_histories import FormerHistories
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.groups.history.explanation import FormerCoordinator, pack_kept, read_kept
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.views.queries import ListRebalances
from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.peer.control import Acknowledged, KeepHistories, Refusal
from cluster.runtime.clock import Clock

log = logging.getLogger(__name__)

BYTES_MAX: Final = 128 * 1024
"""The size of the message, which takes a millisecond to pack. If a partition has more, the groups
that rebalanced longest ago are left out."""
_TIMEOUT_MS: Final = 5_000


class HistoryHandover:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        metadata: MetadataCache,
        link: ControlLink,
        clock: Clock,
    ) -> None:
        self._local_id = local_id
        self.former = FormerHistories()
        self._metadata = metadata
        self._link = link
        self._clock = clock

    def before_unload(self, led: LedShard[GroupShard]) -> None:
        """This broker no longer leads a partition: keep the histories of its groups, and send them
        to the next leader together with those that earlier leaders sent here."""
        since_ms, partition = led.since_wall_ms, led.id
        if since_ms is None:  # it was still being loaded
            return
        histories = led.ask(ListRebalances())
        until_ms = self._clock.wall_ms()
        for group_id, rebalances in sorted(histories.items(), key=_newest):
            former = FormerCoordinator(self._local_id, since_ms, until_ms, rebalances)
            self.former.keep(partition.partition, group_id, [former])
        self._send_to_leader(partition)

    def _send_to_leader(self, partition: TopicPartition) -> None:
        state = self._metadata.partition(partition)
        leader = None if state is None else self._metadata.brokers.get(state.leader)
        if leader is None or leader.id == self._local_id:
            return
        packed: list[bytes] = []
        left_bytes = BYTES_MAX
        for history in self.former.of_partition(partition.partition):
            content = pack_kept(history)
            left_bytes -= len(content)
            if left_bytes < 0:
                break
            packed.append(content)
        if packed:
            message = KeepHistories(tuple(packed))
            self._link.ask(leader.control_endpoint, message, lambda _answer: None, _TIMEOUT_MS)

    def on_request(self, request: KeepHistories, reply: Reply) -> None:
        """A peer sends histories."""
        topic = self._metadata.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None or not topic.partitions:
            reply(
                Refusal(
                    ErrorCode.unknown_topic_or_partition,
                    "the topic __consumer_offsets does not exist here",
                )
            )
            return
        try:
            histories = [read_kept(content) for content in request.histories]
        except PeerError as error:
            reply(Refusal(ErrorCode.invalid_request, str(error)))
            return
        for history in reversed(histories):  # the newest come first, and must be kept longest
            number = partition_of(history.group_id, len(topic.partitions))
            self.former.keep(number, history.group_id, history.coordinators)
        reply(Acknowledged(ErrorCode.none))


def _newest(history: tuple[str, tuple[Rebalance, ...]]) -> WallMs:
    return history[1][-1].started_wall_ms
