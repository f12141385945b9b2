"""Requests that wait: operations keyed by what can complete them, with a deadline. No I/O.

Used by every API that waits (produce with acks=all, fetch, create and delete topics). The
operation decides; the purgatory only knows which ones to try when something changed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar, Protocol

from cluster.runtime.loop_time import LoopTime, Payer


class Operation(Protocol):
    """Something that is answered later. Both methods run on the broker's thread."""

    kind: ClassVar[str]
    """Kafka's word for it, by which waiting operations are counted: `Produce`, `Fetch`, ..."""

    def try_complete(self) -> bool:
        """Answer if the condition holds now; say whether it did. Never called after True."""
        ...

    def expire(self) -> None:
        """The deadline has passed: answer with what there is."""
        ...


class Cancellable(Protocol):
    """What starting a timer returns."""

    def cancel(self) -> None:
        """The timer will not fire."""
        ...


class Parked:
    """One operation's place in the purgatory; `drop` forgets it (its connection has closed)."""

    __slots__ = ("_operation", "_payer", "_purgatory", "_timer", "done", "keys")

    def __init__(
        self,
        purgatory: "Purgatory",
        operation: Operation,
        keys: tuple[Hashable, ...],
        payer: Payer,
    ) -> None:
        """What is done for it is `payer`'s time."""
        self._purgatory = purgatory
        self._operation = operation
        self._payer = payer
        self.keys = keys
        self._timer: Cancellable | None = None
        self.done = False

    def start_timer(
        self, call_at: Callable[[int, Callable[[], None]], Cancellable], deadline_ms: int
    ) -> None:
        """Expire the operation at the deadline unless it completes before."""
        self._timer = call_at(deadline_ms, self._on_deadline)

    def attempt(self) -> None:
        """Try the operation; leave the purgatory when it has answered."""
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
    """Watch lists by key. Invariant: an operation is in all of its keys' lists, or in none.

    Its size is bounded by the number of connections, since each connection has at most one
    request in progress.
    """

    def __init__(
        self, call_at: Callable[[int, Callable[[], None]], Cancellable], time: LoopTime
    ) -> None:
        """Uses the loop's timers and time; a client that parks a request pays for the attempts."""
        self._call_at = call_at
        self.time = time
        self._watchers: dict[Hashable, dict[Parked, None]] = {}
        self.size_by_kind: Counter[str] = Counter()
        """The (key, operation) watches by the kind of the operation."""

    def __len__(self) -> int:
        """How many (key, operation) watches there are."""
        return self.size_by_kind.total()

    def park(self, operation: Operation, keys: Iterable[Hashable], deadline_ms: int) -> Parked:
        """Hold the operation until a `check` of one of `keys` completes it or the deadline passes.

        The caller has tried to complete it before; parking does not try again.
        """
        parked = Parked(self, operation, tuple(dict.fromkeys(keys)), self.time.payer)
        for key in parked.keys:
            self._watchers.setdefault(key, {})[parked] = None
        self.size_by_kind[operation.kind] += len(parked.keys)
        parked.start_timer(self._call_at, deadline_ms)
        return parked

    def check(self, key: Hashable) -> None:
        """Something changed for `key`: try every operation that waits for it."""
        watchers = self._watchers.get(key)
        if watchers is not None:
            for parked in list(watchers):
                parked.attempt()

    def is_watched(self, key: Hashable) -> bool:
        """Whether any operation waits for `key`; cheap, for hot paths."""
        return key in self._watchers

    def forget(self, parked: Parked, kind: str, keys: tuple[Hashable, ...]) -> None:
        """Remove one operation from its keys' lists (called by `Parked`)."""
        self.size_by_kind[kind] -= len(keys)
        for key in keys:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(parked, None)
                if not watchers:
                    del self._watchers[key]
