"""All fetch sessions of a broker: their slots, their eviction, and their changes. Pure.

The rules of eviction are those of Kafka's `FetchSessionCacheShard` (KIP-227). All sessions are
equal in them: brokers replicate by links of their own.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Protocol
from uuid import UUID

from cluster.brokers.fetching.session import CachedPartition, FetchSession, Key
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import TopicPartition
from cluster.protocol.fetch_codec import FetchedTopic
from cluster.protocol.fetch_request import FetchTopic, ForgottenTopic

EVICTION_MS: Final = 120_000
"""A session may be evicted for a larger one when it is older, or for any when it is unused for
longer. A constant of Kafka's broker, too."""
PARTITIONS_MAX: Final = 100_000
"""The partitions of all sessions, of some 750 bytes each; more are fetched without a session. In
Kafka only the slots bound what clients can make a broker remember."""
_NAME_MAX: Final = 249
"""A session remembers no names that no topic can have."""
NO_SESSION: Final = 0


class Changes(Protocol):
    """Where partitions are watched, and waiting requests of sessions are tried again."""

    def watch(self, key: TopicPartition, watcher: CachedPartition) -> None:
        """Call the watcher's `attempt` whenever the partition has changed."""
        ...

    def unwatch(self, key: TopicPartition, watcher: CachedPartition) -> None:
        """No longer."""
        ...

    def is_watched(self, key: FetchSession) -> bool:
        """Whether a request of the session waits."""
        ...

    def check(self, key: FetchSession) -> None:
        """Try the waiting request of a session."""
        ...


class FetchSessions:
    """One per broker, used by its thread.

    Invariant: every partition of a session is watched once its topic's name is known, unless the
    session sleeps: its client may be gone, and its partitions shall not cost anything for ever.
    """

    def __init__(
        self,
        slots: int,
        random: Random,
        changes: Changes,
        defer: Callable[[Callable[[], None]], None],
        now_ms: Callable[[], MonotonicMs],
        topic_name: Callable[[UUID | None], str | None],
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        """A waiting request is tried again by `defer`, once a turn however many partitions have
        changed.
        """
        self._slots = slots
        self._random = random
        self._changes = changes
        self._defer = defer
        self._now_ms = now_ms
        self._topic_name = topic_name
        self._partitions_max = partitions_max
        self._by_id: OrderedDict[int, FetchSession] = OrderedDict()
        """The session that was used last is the last one."""
        self._evictable: list[tuple[int, int]] = []
        """Size and id of each session that a larger one may replace, in that order."""
        self._woken: dict[FetchSession, None] = {}
        self.partition_count = 0
        """The partitions of all sessions, as of their last use."""
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, session_id: int) -> FetchSession | None:
        """The session of that id, whoever asks, as in Kafka."""
        return self._by_id.get(session_id)

    # -- begin and end -------------------------------------------------------------------------

    def open(
        self,
        topics: Sequence[FetchTopic],
        answered: Sequence[FetchedTopic],
        now_ms: MonotonicMs,
        *,
        uses_topic_ids: bool,
    ) -> int:
        """Begin a session with these partitions, to which a full request has these answers in the
        same order. Returns its id, or 0 if none is free: then the client goes on with full
        requests.
        """
        size = sum(len(topic.partitions) for topic in topics)
        if not self._has_room_for(topics) or not self._make_room(size, now_ms):
            return NO_SESSION
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._by_id:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id, now_ms, self._on_changed, uses_topic_ids=uses_topic_ids)
        self._by_id[session_id] = session
        self._take(session, topics)
        for told in answered:
            for found in told[2]:
                session.partitions[told[0] if told[1] is None else told[1], found[0]].on_told(found)
        self.touch(session, now_ms)
        return session_id

    def close(self, session_id: int) -> None:
        """End the session of that id, if there is one."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            self._uncount(session)
            for cached in session.partitions.values():
                self._unwatch(cached)
            session.partitions.clear()
            session.unread.clear()
            self._woken.pop(session, None)

    def touch(self, session: FetchSession, now_ms: MonotonicMs) -> None:
        """A request uses the session; its partitions are in it."""
        if session.cached_size >= 0:
            self._uncount(session)
            self._by_id.move_to_end(session.id)
        if session.is_asleep:
            self._awaken(session)
        session.last_used_ms = now_ms
        session.cached_size = len(session.partitions)
        self.partition_count += session.cached_size
        if now_ms - session.created_ms > EVICTION_MS:
            insort(self._evictable, (session.cached_size, session.id))

    def _uncount(self, session: FetchSession) -> None:
        self.partition_count -= session.cached_size
        key = (session.cached_size, session.id)
        at = bisect_left(self._evictable, key)
        if at < len(self._evictable) and self._evictable[at] == key:
            del self._evictable[at]

    def _make_room(self, size: int, now_ms: MonotonicMs) -> bool:
        if len(self._by_id) < self._slots:
            return True
        if not self._by_id:
            return False
        oldest = next(iter(self._by_id.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            evicted = oldest.id
        elif self._evictable and self._evictable[0] < (size, 0):
            evicted = self._evictable[0][1]
        else:
            return False
        self.close(evicted)
        self.eviction_count += 1
        return True

    def _has_room_for(
        self, topics: Iterable[FetchTopic], present: Mapping[Key, CachedPartition] | None = None
    ) -> bool:
        count = self.partition_count
        for name, _, partitions in topics:
            count += len(partitions)
            if name is not None and len(name) > _NAME_MAX:
                return False
        if count <= self._partitions_max:
            return True
        if present is None:
            return False
        new = sum(
            (name if topic_id is None else topic_id, wanted[0]) not in present
            for name, topic_id, partitions in topics
            for wanted in partitions
        )
        return self.partition_count + new <= self._partitions_max

    # -- partitions ----------------------------------------------------------------------------

    def change(
        self,
        session: FetchSession,
        topics: Sequence[FetchTopic],
        forgotten: Sequence[ForgottenTopic],
    ) -> bool:
        """Apply the changes that a request states. False if the session would remember too much;
        then nothing is changed.
        """
        if topics:
            if not self._has_room_for(topics, session.partitions):
                return False
            self._take(session, topics)
        for name, topic_id, indexes in forgotten:
            topic = name if topic_id is None else topic_id
            for index in indexes:
                cached = session.partitions.pop((topic, index), None)
                if cached is not None:
                    session.unread.pop(cached, None)
                    self._unwatch(cached)
        return True

    def _take(self, session: FetchSession, topics: Sequence[FetchTopic]) -> None:
        partitions, unread = session.partitions, session.unread
        for name, topic_id, wanted_partitions in topics:
            topic = name if topic_id is None else topic_id
            if name is None:
                name = self._topic_name(topic_id)
            for wanted in wanted_partitions:
                key: Key = (topic, wanted[0])
                cached = partitions.get(key)
                if cached is None:
                    cached = CachedPartition(session, name, topic_id, wanted, session.take_turn())
                    partitions[key] = cached
                    if name is not None:
                        self._watch(cached, name)
                else:
                    cached.wanted = wanted
                unread[cached] = None

    def name(self, cached: CachedPartition, topic: str) -> None:
        """The name of a partition's topic was found."""
        cached.topic = topic
        self._watch(cached, topic)

    def _watch(self, cached: CachedPartition, topic: str) -> None:
        self._changes.watch(TopicPartition(topic, cached.wanted[0]), cached)

    def _unwatch(self, cached: CachedPartition) -> None:
        if cached.topic is not None:
            self._changes.unwatch(TopicPartition(cached.topic, cached.wanted[0]), cached)

    def _on_changed(self, session: FetchSession) -> None:
        if not self._woken:
            self._defer(self._wake_all)
        self._woken[session] = None

    def _wake_all(self) -> None:
        woken, self._woken = self._woken, {}
        now_ms = self._now_ms()
        for session in woken:
            if self._changes.is_watched(session):
                self._changes.check(session)
            elif now_ms - session.last_used_ms > EVICTION_MS:
                self._put_to_sleep(session)

    def _put_to_sleep(self, session: FetchSession) -> None:
        session.is_asleep = True
        for cached in session.partitions.values():
            self._unwatch(cached)

    def _awaken(self, session: FetchSession) -> None:
        session.is_asleep = False
        session.unread = dict.fromkeys(session.partitions.values())
        for cached in session.unread:
            if cached.topic is not None:
                self._watch(cached, cached.topic)
