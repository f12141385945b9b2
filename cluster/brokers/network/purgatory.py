"""The purgatory: delayed operations with a deadline, by the keys that can complete them. No I/O.

Every API with delayed answers uses it (fetch, DeleteRecords, metadata), except Produce
(`brokers/replication/commit_waits.py`). The operation decides whether it is complete; the purgatory
only finds the operations to try.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar, Protocol

from cluster.runtime.loop_time import LoopTime, Payer


class Operation(Protocol):
    """A delayed answer. Both methods run on the broker's thread."""

    kind: ClassVar[str]
    """Kafka's word for it, by which waiting operations are counted: `Fetch`, `Metadata`, ..."""

    def try_complete(self) -> bool:
        """Answer if the condition holds now, and return whether it did. Never called after True."""
        ...

    def expire(self) -> None:
        """The deadline has passed: answer with the available result."""
        ...


class Cancellable(Protocol):
    """A started timer."""

    def cancel(self) -> None:
        """Prevent the timer from firing."""
        ...


class Watcher(Protocol):
    """What is told of a key's changes."""

    def attempt(self) -> None:
        """The state of the key has changed."""
        ...


class Parked:
    """One operation in the purgatory; `drop` removes it if its connection closes."""

    __slots__ = ("_operation", "_payer", "_purgatory", "_timer", "done", "keys")

    def __init__(
        self,
        purgatory: "Purgatory",
        operation: Operation,
        keys: tuple[Hashable, ...],
        payer: Payer,
    ) -> None:
        """`payer` is charged for the time of the operation."""
        self._purgatory = purgatory
        self._operation = operation
        self._payer = payer
        self.keys = keys
        self._timer: Cancellable | None = None
        self.done = False

    def start_timer(
        self, call_at: Callable[[int, Callable[[], None]], Cancellable], deadline_ms: int
    ) -> None:
        """Expire the operation at the deadline unless it completes earlier."""
        self._timer = call_at(deadline_ms, self._on_deadline)

    def attempt(self) -> None:
        """Try the operation, and remove it if it has answered."""
        if self.done:
            return
        time = self._purgatory.time
        payer = time.switch(self._payer)
        if self._operation.try_complete():
            self.drop()
        time.switch(payer)

    def drop(self) -> None:
        """Leave the purgatory without an answer; a second call does nothing."""
        if self.done:
            return
        self.done = True
        if self._timer is not None:
            self._timer.cancel()
        self._purgatory.forget(self, self._operation.kind, self.keys)

    def _on_deadline(self) -> None:
        if not self.done:
            self.drop()
            self._purgatory.time.payer = self._payer
            self._operation.expire()


class Purgatory:
    """Watch lists by key. Invariant: an operation is in the lists of all its keys, or in none.

    Each connection has at most one request in progress, so the number of connections bounds the
    size.
    """

    def __init__(
        self, call_at: Callable[[int, Callable[[], None]], Cancellable], time: LoopTime
    ) -> None:
        """Uses the loop's timers and time; the client of a delayed request is charged for its
        attempts."""
        self._call_at = call_at
        self.time = time
        self._watchers: dict[Hashable, dict[Watcher, None]] = {}
        self.size_by_kind: Counter[str] = Counter()
        """The (key, operation) watches by the kind of the operation."""

    def __len__(self) -> int:
        """The number of (key, operation) watches."""
        return self.size_by_kind.total()

    def park(self, operation: Operation, keys: Iterable[Hashable], deadline_ms: int) -> Parked:
        """Hold an operation until a `check` of one of `keys` completes it or the deadline passes.

        The caller has already tried to complete it; parking does not try again.
        """
        parked = Parked(self, operation, tuple(dict.fromkeys(keys)), self.time.payer)
        for key in parked.keys:
            self._watchers.setdefault(key, {})[parked] = None
        self.size_by_kind[operation.kind] += len(parked.keys)
        parked.start_timer(self._call_at, deadline_ms)
        return parked

    def watch(self, key: Hashable, watcher: Watcher) -> None:
        """Tell the watcher of every change of `key`, until `unwatch`."""
        self._watchers.setdefault(key, {})[watcher] = None

    def unwatch(self, key: Hashable, watcher: Watcher) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[key]

    def check(self, key: Hashable) -> None:
        """Try every operation that waits for `key`, whose state has changed."""
        watchers = self._watchers.get(key)
        if watchers is not None:
            for parked in list(watchers):
                parked.attempt()

    def is_watched(self, key: Hashable) -> bool:
        """Whether any operation waits for `key`; cheap enough for hot paths."""
        return key in self._watchers

    def forget(self, parked: Parked, kind: str, keys: tuple[Hashable, ...]) -> None:
        """Remove one operation from its keys' lists (called by `Parked`)."""
        self.size_by_kind[kind] -= len(keys)
        for key in keys:
            self.unwatch(key, parked)
