"""Replication between brokers: by ZeroMQ, and by a local connection for brokers of one machine.

ZeroMQ carries everything: a ROUTER that followers ask, and a DEALER per followed leader. Where both
brokers are on one machine, a local connection beside it carries the compact messages, which are
nearly all. It is only another way for the messages of a session that began by ZeroMQ: what does not
fit, and everything once it breaks, goes by ZeroMQ.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Final

from cluster.brokers.replication.follower_fetcher import (
    FetchOptions,
    FollowerFetcher,
)
from cluster.brokers.replication.following import ThrottledFetches
from cluster.brokers.replication.leader_fetches import LeaderActions, LeaderFetches
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.replication_throttles import ReplicationThrottles
from cluster.brokers.replication.segment_files import SWEEP_MS, SegmentFiles
from cluster.model.errors import PeerError
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.compact import COMPACT_ANSWER, COMPACT_FETCH, COMPACT_REFUSAL
from cluster.protocol.peer.replication import FetchAnswer, FollowerFetch
from cluster.runtime.clock import Clock
from cluster.runtime.local_link import local_address
from cluster.runtime.loop import EventLoop
from cluster.runtime.peer_sockets import (
    DealerSocket,
    LocalConnection,
    LocalSockets,
    PeerSockets,
    RouterSocket,
)

log = logging.getLogger(__name__)

_FETCH_BYTE: Final = bytes([COMPACT_FETCH])
_ANSWER_BYTES: Final = (bytes([COMPACT_ANSWER]), bytes([COMPACT_REFUSAL]))
_TICK_MS: Final = 100
"""Period of the check for lost answers; a retry at a certain time has its own timer."""
_CONNECT_AGAIN_MS: Final = 5_000
"""Pause between two attempts to connect locally to a leader that may be on another machine."""


class _WayBack:
    """How followers are answered."""

    def __init__(self, router: RouterSocket) -> None:
        self._router = router

    def send(self, identity: bytes, answer: FetchAnswer) -> bool:
        """Send a full answer, by ZeroMQ."""
        return self._router.send(identity, encode(answer))

    def send_compact(self, way: bytes | LocalConnection, frames: list[bytes | memoryview]) -> bool:
        """Send a compact answer; a local connection takes no frames of records."""
        if isinstance(way, bytes):
            return self._router.send(way, frames)
        return way.send(bytes(frames[0]))


class _WayToLeader:
    """How one leader is asked."""

    def __init__(self, dealer: DealerSocket, connect: Callable[[], LocalConnection | None]) -> None:
        self.dealer = dealer
        self._connect = connect
        self._local: LocalConnection | None = None
        self._connect_again_ms = 0

    def send(self, fetch: FollowerFetch) -> bool:
        """Send a full request, by ZeroMQ."""
        return self.dealer.send(encode(fetch))

    def send_compact(self, message: bytes) -> bool:
        """Send a compact request by the local connection, if there is one that takes it."""
        if self._local is not None and self._local.send(message):
            return True
        return self.dealer.send([message])

    def connect_if_due(self, now_ms: int) -> None:
        """Try to connect locally, unless that is done or was tried lately."""
        if self._local is None and now_ms >= self._connect_again_ms:
            self._connect_again_ms = now_ms + _CONNECT_AGAIN_MS
            self._local = self._connect()

    def on_lost(self) -> None:
        """The local connection is closed."""
        self._local = None

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
        self.dealer.close()


class ReplicationLink:
    """Runs both sides of replication for one broker, on its loop."""

    def __init__(
        self,
        sockets: PeerSockets,
        local_sockets: LocalSockets,
        loop: EventLoop,
        clock: Clock,
        host: str,
        options: FetchOptions,
        partition_max_bytes: int,
        actions: LeaderActions,
        random: Random,
        on_follower_high_watermark: Callable[[Partition], None],
        throttles: ReplicationThrottles,
        port: int = 0,
        *,
        has_readers: bool = False,
    ) -> None:
        """`has_readers`: see `LeaderFetches`."""
        self._sockets = sockets
        self._local_sockets = local_sockets
        self._loop = loop
        self._clock = clock
        self._options = options
        self._actions = actions
        self._random = random
        self._on_follower_high_watermark = on_follower_high_watermark
        self.throttles = throttles
        self._throttle = throttles.follower
        self._throttle.connect(self._on_turn, self._on_throttle_changed)
        self._files = SegmentFiles()
        self._ways: dict[BrokerId, _WayToLeader] = {}
        self._fetchers: dict[BrokerId, FollowerFetcher] = {}
        self._following: dict[TopicPartition, BrokerId] = {}
        self._to_ask: set[BrokerId] = set()
        """Leaders that get a request in this turn or the next."""
        self._received_before = 0
        """Record bytes taken from leaders that are not followed any more."""
        self._router = sockets.router(loop, host, self._on_request, port)
        self.endpoint = self._router.endpoint
        self.leader_side = LeaderFetches(
            actions,
            options.machine,
            partition_max_bytes,
            _WayBack(self._router),
            loop.defer,
            throttles.leader,
        )
        self.leader_side.has_readers = has_readers
        self._local_listener = None
        if options.by_file:
            self._local_listener = local_sockets.listen(
                loop,
                local_address(self.endpoint),
                self._on_local_request,
                self.leader_side.on_way_lost,
            )
        loop.call_every(_TICK_MS, self._on_tick)
        loop.call_every(SWEEP_MS, self._files.sweep)

    @property
    def max_lag(self) -> int:
        """The lag in committed records of the replica that is furthest behind its leader, as of its
        last fetch."""
        return max((max(f.lags.values(), default=0) for f in self._fetchers.values()), default=0)

    @property
    def sent_bytes(self) -> int:
        """Record bytes handed to followers since the start."""
        return self.leader_side.sent_bytes

    @property
    def received_bytes(self) -> int:
        """Record bytes taken from leaders since the start."""
        return self._received_before + sum(f.received_bytes for f in self._fetchers.values())

    def follow(self, partition: Partition, leader: BrokerId, endpoint: str) -> None:
        """Replicate from that leader, reachable at that endpoint."""
        if self._following.get(partition.id, leader) != leader:
            self.unfollow(partition.id)
        way = self._ways.get(leader)
        if way is None or way.dealer.endpoint != endpoint:
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
            self._received_before += fetcher.received_bytes
            del self._fetchers[leader]
            self._ways.pop(leader).close()

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
        if self._local_listener is not None:
            self._local_listener.close()
        for way in self._ways.values():
            way.close()
        self._files.close()

    def _connect(self, leader: BrokerId, endpoint: str) -> None:
        """Connect to a leader that restarted, and follow its partitions at the new endpoint."""
        old = self._ways.pop(leader, None)
        if old is not None:
            old.close()
            self._received_before += self._fetchers[leader].received_bytes
        followed = [
            self._fetchers[leader].partition(partition_id)
            for partition_id, broker in self._following.items()
            if broker == leader
        ]
        if old is not None:
            for partition in followed:
                self._fetchers[leader].unfollow(partition.id)
        dealer = self._sockets.dealer(
            self._loop, endpoint, lambda frames: self._on_answer(leader, frames)
        )
        way = _WayToLeader(dealer, lambda: self._connect_locally(leader, endpoint))
        fetcher = FollowerFetcher(
            leader,
            self._options,
            way,
            self._files,
            self._random,
            self._on_follower_high_watermark,
            self._actions.note_failure,
            self._throttle,
        )
        for partition in followed:
            fetcher.follow(partition)
        self._ways[leader] = way
        self._fetchers[leader] = fetcher

    def _connect_locally(self, leader: BrokerId, endpoint: str) -> LocalConnection | None:
        if not self._options.by_file:
            return None
        connection = self._local_sockets.connect(
            self._loop,
            local_address(endpoint),
            lambda connection, message: self._on_local_answer(leader, connection, message),
            lambda _: self._on_local_closed(leader),
        )
        if connection is not None:
            log.info("leader %d is on this machine: fetching by a local connection", leader)
        return connection

    def _on_local_closed(self, leader: BrokerId) -> None:
        log.info("the local connection to leader %d is closed: fetching by ZeroMQ", leader)
        self._ways[leader].on_lost()
        fetcher = self._fetchers[leader]
        fetcher.on_way_lost(self._loop.now_ms)
        self._go_on(leader, fetcher)

    def _on_turn(self, throttled: ThrottledFetches) -> None:
        fetcher = self._fetchers.get(throttled.leader)
        if fetcher is not None and fetcher.throttled is throttled:
            fetcher.on_turn(self._loop.now_ms)
            self._go_on(throttled.leader, fetcher)

    def _on_throttle_changed(self) -> None:
        for leader, fetcher in list(self._fetchers.items()):
            fetcher.on_throttle_changed(self._loop.now_ms)
            self._go_on(leader, fetcher)

    def _on_tick(self) -> None:
        now_ms = self._loop.now_ms
        self.leader_side.on_tick(now_ms)
        for leader, fetcher in list(self._fetchers.items()):
            self._ways[leader].connect_if_due(now_ms)
            fetcher.on_tick(now_ms)
            self._go_on(leader, fetcher)

    def _retry(self, leader: BrokerId, fetcher: FollowerFetcher) -> None:
        if self._fetchers.get(leader) is fetcher:
            fetcher.on_tick(self._loop.now_ms)
            self._go_on(leader, fetcher)

    def _on_request(self, identity: bytes, frames: list[bytes]) -> None:
        self._loop.time.payer = self._loop.time.shared
        try:
            if frames and frames[0][:1] == _FETCH_BYTE:
                self.leader_side.on_compact_fetch(identity, frames[0], self._loop.now_ms)
                return
            fetch = decode(frames)
            if type(fetch) is not FollowerFetch:
                raise PeerError(f"{type(fetch).__name__} is not a fetch")
        except PeerError as error:
            log.warning("ignored a replication message: %s", error)
            return
        if self._local_listener is not None:
            # What the follower sent locally before this message is to be handled before it.
            self._local_listener.receive_all()
        self.leader_side.on_fetch(identity, fetch, self._loop.now_ms)

    def _on_local_request(self, connection: LocalConnection, message: bytes | memoryview) -> None:
        self._loop.time.payer = self._loop.time.shared
        try:
            if message[0] != COMPACT_FETCH:
                raise PeerError(f"{message[0]} is not a kind of local message")
            self.leader_side.on_compact_fetch(connection, message, self._loop.now_ms)
        except PeerError as error:
            log.warning("closed a local connection: %s", error)
            connection.close()
            self.leader_side.on_way_lost(connection)

    def _on_answer(self, leader: BrokerId, frames: list[bytes]) -> None:
        self._loop.time.payer = self._loop.time.shared
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            return
        try:
            if frames and frames[0][:1] in _ANSWER_BYTES:
                fetcher.on_compact_answer(
                    frames[0], frames[1:], self._loop.now_ms, self._clock.wall_ms()
                )
            else:
                answer = decode(frames)
                if type(answer) is not FetchAnswer:
                    raise PeerError(f"{type(answer).__name__} is not an answer to a fetch")
                fetcher.on_answer(answer, self._loop.now_ms, self._clock.wall_ms())
        except PeerError as error:
            log.warning("refused an answer of leader %d: %s", leader, error)
            fetcher.on_malformed_answer(self._loop.now_ms)
        self._go_on(leader, fetcher)

    def _on_local_answer(
        self, leader: BrokerId, connection: LocalConnection, message: bytes | memoryview
    ) -> None:
        self._loop.time.payer = self._loop.time.shared
        fetcher = self._fetchers[leader]
        try:
            if message[0] not in (COMPACT_ANSWER, COMPACT_REFUSAL):
                raise PeerError(f"{message[0]} is not a kind of local message")
            fetcher.on_compact_answer(message, (), self._loop.now_ms, self._clock.wall_ms())
        except PeerError as error:
            log.warning("closed the local connection to leader %d: %s", leader, error)
            connection.close()
            self._ways[leader].on_lost()
            fetcher.on_malformed_answer(self._loop.now_ms)
        self._go_on(leader, fetcher)
