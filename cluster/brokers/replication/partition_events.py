"""Passes events of replicas on to subscribers.

Appends and moved offsets are collected during a turn of the loop and passed on once at its end, so
that fifty batches of a partition in one turn wake its followers once.
"""

from collections.abc import Callable, Collection

from cluster.brokers.replication.partition import Partition
from cluster.model.ids import TopicPartition

Listener = Callable[[TopicPartition], None]
NewsListener = Callable[[Collection[TopicPartition]], None]


class PartitionEvents:
    """One per broker, used by its thread. Subscribers are called in the order they subscribed in.

    It stands between parts that need each other: those that change replicas have it as an argument,
    those that react to changes subscribe once, when they are made.
    """

    def __init__(self, defer: Callable[[Callable[[], None]], None]) -> None:
        self._defer = defer
        self._news_listeners: list[NewsListener] = []
        self._moved_listeners: list[Listener] = []
        self._stable_listeners: list[Listener] = []
        self._watermark_listeners: list[Listener] = []
        self._start_listeners: list[Listener] = []
        self._append_listeners: list[Callable[[Partition], None]] = []
        self._role_listeners: list[Listener] = []
        self._newest: Partition | None = None
        """The partition of the last append in this turn."""
        self._appended: dict[TopicPartition, None] = {}
        self._moved: dict[TopicPartition, Partition | None] = {}
        """The value is the replica if its last stable offset may have moved."""
        self._is_telling_deferred = False

    def subscribe(
        self,
        *,
        on_news: NewsListener | None = None,
        on_moved: Listener | None = None,
        on_stable: Listener | None = None,
        on_watermark: Listener | None = None,
        on_log_start: Listener | None = None,
        on_append: Callable[[Partition], None] | None = None,
        on_role: Listener | None = None,
    ) -> None:
        """Have functions called from now on.

        At the end of a turn: `on_news` with all led partitions that have news for their
        followers, such as batches; `on_moved` if more of a partition may be readable or committed;
        `on_stable` if the last stable offset of a led partition has moved, so that readers with
        `read_committed` can read more. At once:
        `on_watermark` and `on_log_start` when these offsets of a led partition move; `on_append`
        when a led partition is appended to, of several batches in a row for the first; `on_role`
        when a replica leads, follows, or is removed.
        """
        for listeners, listener in (
            (self._moved_listeners, on_moved),
            (self._stable_listeners, on_stable),
            (self._watermark_listeners, on_watermark),
            (self._start_listeners, on_log_start),
            (self._role_listeners, on_role),
        ):
            if listener is not None:
                listeners.append(listener)
        if on_news is not None:
            self._news_listeners.append(on_news)
        if on_append is not None:
            self._append_listeners.append(on_append)

    def on_appended(self, partition: Partition) -> None:
        """A leader's log has grown."""
        if partition is self._newest:
            return
        self._newest = partition
        for listener in self._append_listeners:
            listener(partition)
        partition_id = partition.id
        self._appended[partition_id] = None
        leader = partition.leader
        if leader is None or leader.high_watermark == partition.log.log_end_offset:
            self._moved[partition_id] = partition  # no follower has to fetch it first
        if not self._is_telling_deferred:
            self._is_telling_deferred = True
            self._defer(self._tell)

    def on_moved(self, partition_id: TopicPartition) -> None:
        """Try again the requests that wait for the partition."""
        self._moved.setdefault(partition_id)
        if not self._is_telling_deferred:
            self._is_telling_deferred = True
            self._defer(self._tell)

    def on_high_watermark_moved(self, partition: Partition) -> None:
        """More can be read, or more produce requests are committed."""
        if partition.leader is not None:
            for listener in self._watermark_listeners:
                listener(partition.id)
        self._moved[partition.id] = partition
        self.on_moved(partition.id)

    def on_log_start_moved(self, partition: Partition, *, someone_waits: bool = False) -> None:
        """Records were deleted from the beginning of a log.

        If someone waits until the followers have deleted them too, the followers get it at once.
        """
        if partition.leader is not None:
            for listener in self._start_listeners:
                listener(partition.id)
            if someone_waits:
                self._appended[partition.id] = None
        self.on_moved(partition.id)

    def on_role_changed(self, partition_id: TopicPartition) -> None:
        """A replica leads, follows, or was removed."""
        self._newest = None
        for listener in self._role_listeners:
            listener(partition_id)

    def _tell(self) -> None:
        self._is_telling_deferred = False
        self._newest = None
        appended, self._appended = self._appended, {}
        moved, self._moved = self._moved, {}
        if appended:
            for news_listener in self._news_listeners:
                news_listener(appended)
        for listener in self._moved_listeners:
            for partition_id in moved:
                listener(partition_id)
        if self._stable_listeners:
            for partition_id, partition in moved.items():
                if partition is None or partition.leader is None:
                    continue
                if partition.take_last_stable_move():
                    for listener in self._stable_listeners:
                        listener(partition_id)
