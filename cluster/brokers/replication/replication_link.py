"""Replication on ZeroMQ: a ROUTER that followers ask, and a DEALER per followed leader."""

import logging
from collections.abc import Callable
from random import Random
from typing import Final

from cluster.brokers.replication.follower_fetcher import (
    FetchOptions,
    FollowerFetcher,
)
from cluster.brokers.replication.leader_fetches import LeaderActions, LeaderFetches
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.segment_files import SWEEP_MS, SegmentFiles
from cluster.model.errors import PeerError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.replication import FetchAnswer, FileSource, FollowerFetch
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop
from cluster.runtime.peer_sockets import DealerSocket, PeerSockets

log = logging.getLogger(__name__)

_TICK_MS: Final = 100
"""Period of the check for lost answers; a retry at a certain time has its own timer."""


class ReplicationLink:
    """Runs both sides of replication for one broker, on its loop."""

    def __init__(
        self,
        sockets: PeerSockets,
        loop: EventLoop,
        clock: Clock,
        host: str,
        options: FetchOptions,
        partition_max_bytes: int,
        actions: LeaderActions,
        random: Random,
        on_follower_high_watermark: Callable[[Partition], None],
        port: int = 0,
    ) -> None:
        self._sockets = sockets
        self._loop = loop
        self._clock = clock
        self._options = options
        self._actions = actions
        self._random = random
        self._on_follower_high_watermark = on_follower_high_watermark
        self._files = SegmentFiles()
        self._dealers: dict[BrokerId, DealerSocket] = {}
        self._fetchers: dict[BrokerId, FollowerFetcher] = {}
        self._following: dict[TopicPartition, BrokerId] = {}
        self._to_ask: set[BrokerId] = set()
        """Leaders that get a request in this turn or the next."""
        self.sent_bytes = 0
        """Record bytes handed to followers since the start."""
        self.received_bytes = 0
        """Record bytes taken from leaders since the start."""
        self._router = sockets.router(loop, host, self._on_request, port)
        self.endpoint = self._router.endpoint
        self.leader_side = LeaderFetches(
            actions, options.machine, partition_max_bytes, self._send_answer
        )
        loop.call_every(_TICK_MS, self._on_tick)
        loop.call_every(SWEEP_MS, self._files.sweep)

    @property
    def max_lag(self) -> int:
        """The lag in committed records of the replica that is furthest behind its leader, as of its
        last fetch."""
        return max((max(f.lags.values(), default=0) for f in self._fetchers.values()), default=0)

    def follow(self, partition: Partition, leader: BrokerId, endpoint: str) -> None:
        """Replicate from that leader, reachable at that endpoint."""
        if self._following.get(partition.id, leader) != leader:
            self.unfollow(partition.id)
        dealer = self._dealers.get(leader)
        if dealer is None or dealer.endpoint != endpoint:
            self._connect(leader, endpoint)
        self._following[partition.id] = leader
        fetcher = self._fetchers[leader]
        fetcher.follow(partition)
        if leader not in self._to_ask:
            self._to_ask.add(leader)
            self._loop.defer(lambda: self._ask(leader))

    def unfollow(self, partition_id: TopicPartition) -> None:
        """Stop replicating; the connection is closed with the last partition of a leader."""
        leader = self._following.pop(partition_id, None)
        if leader is None:
            return
        fetcher = self._fetchers[leader]
        fetcher.unfollow(partition_id)
        if fetcher.is_idle:
            del self._fetchers[leader]
            self._dealers.pop(leader).close()

    def _ask(self, leader: BrokerId) -> None:
        """Send the changes in several requests, with a turn of the loop between them."""
        self._to_ask.discard(leader)
        fetcher = self._fetchers.get(leader)
        if fetcher is not None:
            fetcher.ask(self._loop.now_ms)
            self._go_on(leader, fetcher)

    def _go_on(self, leader: BrokerId, fetcher: FollowerFetcher) -> None:
        if fetcher.has_news and leader not in self._to_ask:
            self._to_ask.add(leader)
            self._loop.next_turn(lambda: self._ask(leader))
        retry_at_ms = fetcher.take_retry_at_ms()
        if retry_at_ms is not None:
            self._loop.call_at(retry_at_ms, lambda: self._retry(leader, fetcher))

    def close(self) -> None:
        """Close sockets and files."""
        self._router.close()
        for dealer in self._dealers.values():
            dealer.close()
        self._files.close()

    def _connect(self, leader: BrokerId, endpoint: str) -> None:
        """Connect to a leader that restarted, and follow its partitions at the new endpoint."""
        old = self._dealers.pop(leader, None)
        if old is not None:
            old.close()
        followed = [
            self._fetchers[leader].partition(partition_id)
            for partition_id, broker in self._following.items()
            if broker == leader
        ]
        dealer = self._sockets.dealer(
            self._loop, endpoint, lambda frames: self._on_answer(leader, frames)
        )
        fetcher = FollowerFetcher(
            leader,
            self._options,
            lambda fetch: dealer.send(encode(fetch)),
            self._files,
            self._random,
            self._on_follower_high_watermark,
            self._actions.note_failure,
        )
        for partition in followed:
            fetcher.follow(partition)
        self._dealers[leader] = dealer
        self._fetchers[leader] = fetcher

    def _on_tick(self) -> None:
        now_ms = self._loop.now_ms
        self.leader_side.on_tick(now_ms)
        for leader, fetcher in list(self._fetchers.items()):
            fetcher.on_tick(now_ms)
            self._go_on(leader, fetcher)

    def _retry(self, leader: BrokerId, fetcher: FollowerFetcher) -> None:
        if self._fetchers.get(leader) is fetcher:
            fetcher.on_tick(self._loop.now_ms)
            self._go_on(leader, fetcher)

    def _on_request(self, identity: bytes, frames: list[bytes]) -> None:
        self._loop.time.payer = self._loop.time.shared
        try:
            fetch = decode(frames)
        except PeerError as error:
            log.warning("ignored a replication message: %s", error)
            return
        if type(fetch) is not FollowerFetch:
            log.warning("ignored a replication message: %s is not a fetch", type(fetch).__name__)
            return
        self.leader_side.on_fetch(identity, fetch, self._loop.now_ms)

    def _send_answer(self, identity: bytes, answer: FetchAnswer) -> bool:
        self.sent_bytes += _records_bytes(answer)
        return self._router.send(identity, encode(answer))

    def _on_answer(self, leader: BrokerId, frames: list[bytes]) -> None:
        self._loop.time.payer = self._loop.time.shared
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            return
        try:
            answer = decode(frames)
            if type(answer) is not FetchAnswer:
                raise PeerError(f"{type(answer).__name__} is not an answer to a fetch")
        except PeerError as error:
            log.warning("refused an answer of leader %d: %s", leader, error)
            fetcher.on_malformed_answer(self._loop.now_ms)
            self._go_on(leader, fetcher)
            return
        self.received_bytes += _records_bytes(answer)
        fetcher.on_answer(answer, self._loop.now_ms, self._clock.wall_ms())
        self._go_on(leader, fetcher)


def _records_bytes(answer: FetchAnswer) -> int:
    size_bytes = 0
    for partition in answer.partitions:
        records = partition.records
        if records is not None:
            size_bytes += records.size_bytes if isinstance(records, FileSource) else len(records)
    return size_bytes
