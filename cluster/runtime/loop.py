"""A single-threaded event loop: descriptors, timers, deferred calls, wake-ups by other threads.

A turn waits for readiness, then runs the callbacks of ready descriptors, due timers, calls posted
by other threads, and finally the calls deferred during the turn. Deferred calls batch work: a
partition that took fifty batches in one turn wakes its followers once.
"""

import contextlib
import heapq
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from cluster.model.clocks import MonotonicMs
from cluster.runtime.clock import Clock
from cluster.runtime.loop_time import LoopTime
from cluster.runtime.readiness import (
    READABLE,
    READABLE_AND_WRITABLE,
    WRITABLE,
    OnReady,
    Poller,
    Watches,
    make_poller,
)

__all__ = ["READABLE", "WRITABLE", "EventLoop", "HasFileno", "Timer"]

log = logging.getLogger(__name__)

COMPACT_TIMERS_ABOVE: Final = 4096
"""Cancelled timers stay in the heap until there are more than this, and they are most of it."""


class HasFileno(Protocol):
    """A socket, a pipe, or anything else that the selector can watch."""

    def fileno(self) -> int: ...


class Timer:
    """A call at a monotonic deadline. Cancelling takes constant time; the heap drops it later."""

    __slots__ = ("callback", "deadline_ms", "loop")

    def __init__(self, deadline_ms: int, callback: Callable[[], None], loop: "EventLoop") -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback
        self.loop = loop

    def cancel(self) -> None:
        """Prevent the callback; a second call, or one after the callback, does nothing."""
        if self.callback is not None:
            self.callback = None
            self.loop.timer_cancelled()


class EventLoop:
    """An event loop. Owned by one thread; others may call only `call_from_thread` and `stop`.

    Invariant: an exception in a callback is a bug and ends the process, unless the caller catches
    it; the loop swallows no exceptions.
    """

    def __init__(self, clock: Clock, poller: Callable[[], Poller] = make_poller) -> None:
        self._clock = clock
        self.monotonic_ns = clock.monotonic_ns
        self.time = LoopTime(clock.monotonic_ns, clock.thread_cpu_ns)
        """The payer that the thread works for, and for how long."""
        self.now_ms = clock.monotonic_ms()
        """Monotonic time at which this turn's readiness was reported."""
        self.turn = 0
        """Counts the turns."""
        self.turn_ns = clock.monotonic_ns()
        """`now_ms` in nanoseconds."""
        self._poller = poller()
        self._watches = Watches(self._poller)
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_sequence = 0
        self._cancelled_count = 0
        self._deferred: deque[Callable[[], None]] = deque()
        self._posted: deque[Callable[[], None]] = deque()
        self._is_stopping = False
        self._is_woken = False
        """A byte is in the pipe, or about to be: whoever posts more needs none of its own."""
        self._holding: set[int] = set()
        """Descriptors whose transports hold bytes to read that the kernel does not know of."""
        self._holding_readable: set[int] = set()
        """Those of them that are watched for READABLE: they are ready in every turn."""
        self._unwatched: set[int] = set()
        """Descriptors unwatched in this turn: their remaining events are dropped, as the number may
        belong to another file by now."""
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._watches.add(self._wake_reader, READABLE, self._on_wake)

    def watch(self, source: HasFileno | int, events: int, callback: OnReady) -> None:
        """Call `callback(ready_events)` whenever the descriptor is ready for one of `events`.

        A lost connection is ready for all of them.
        """
        fd = _number(source)
        self._watches.add(fd, events, callback)
        if fd in self._holding and events & READABLE:
            self._holding_readable.add(fd)

    def rewatch(self, source: HasFileno | int, events: int, callback: OnReady) -> None:
        """Change the events of a watched descriptor; with 0, not even its loss is reported.

        For a descriptor that is watched again soon, this takes fewer system calls than `unwatch`.
        """
        fd = _number(source)
        self._watches.change(fd, events, callback)
        if fd in self._holding:
            self._follow_interest(fd, events)

    def unwatch(self, source: HasFileno | int) -> None:
        """Forget a descriptor, including its events of this turn; call this before closing it."""
        fd = _number(source)
        self._watches.remove(fd)
        self._unwatched.add(fd)
        if self._holding_readable:
            self._holding_readable.discard(fd)

    def mark_readable(self, fd: int, is_holding: bool) -> None:
        """Mark a descriptor whose transport holds readable bytes, such as decrypted ones.

        While it is marked, it is ready in every turn in which it is watched for READABLE. Clear the
        mark before closing it.
        """
        if is_holding:
            self._holding.add(fd)
            watch = self._watches.wanted.get(fd)
            self._follow_interest(fd, 0 if watch is None else watch[0])
        else:
            self._holding.discard(fd)
            self._holding_readable.discard(fd)

    def _follow_interest(self, fd: int, events: int) -> None:
        if events & READABLE:
            self._holding_readable.add(fd)
        else:
            self._holding_readable.discard(fd)

    @property
    def watched_count(self) -> int:
        """The number of descriptors watched by callers."""
        return len(self._watches.wanted) - 1

    @property
    def timer_count(self) -> int:
        """The number of timers in the heap, including cancelled ones."""
        return len(self._timers)

    @property
    def has_calls(self) -> bool:
        """Whether the next turn has calls to make, even without ready descriptors."""
        return bool(self._posted or self._deferred)

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` in the first turn at or after the monotonic deadline."""
        timer = Timer(deadline_ms, callback, self)
        self._timer_sequence += 1
        heapq.heappush(self._timers, (deadline_ms, self._timer_sequence, timer))
        return timer

    def call_after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self.call_at(self._clock.monotonic_ms() + delay_ms, callback)

    def call_every(self, period_ms: int, callback: Callable[[], None]) -> None:
        """Run `callback` `period_ms` after each run, for as long as the loop runs."""

        def again() -> None:
            callback()
            self.call_after(period_ms, again)

        self.call_after(period_ms, again)

    def defer(self, callback: Callable[[], None]) -> None:
        """Run `callback` at the end of this turn, after all ready descriptors."""
        self._deferred.append(callback)

    def next_turn(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the next turn, after its ready descriptors; for work in slices."""
        self._posted.append(callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the loop's thread in its next turn. Thread-safe.

        Calls between two turns share one write, because each write releases the GIL.
        """
        self._posted.append(callback)
        if self._is_woken:
            return  # a call posted before the flag is cleared runs in the same turn
        self._is_woken = True
        try:
            os.write(self._wake_writer, b"\0")
        except BlockingIOError:
            return  # the pipe is full of wake-ups

    def stop(self) -> None:
        """Make `run` return after the current turn, or at once. Thread- and signal-safe."""
        self._is_stopping = True
        self.call_from_thread(_nothing)

    def run(self) -> None:
        """Run turns until `stop`."""
        while not self._is_stopping:
            self.run_once()
        self._is_stopping = False

    def run_once(self, max_wait_ms: int | None = None) -> None:
        """Run one turn; waits for readiness until the next timer or for `max_wait_ms`."""
        ready = self._poller.poll(self._wait_seconds(max_wait_ms))
        now_ns = self.monotonic_ns()
        self.turn_ns = now_ns
        self.now_ms = MonotonicMs(now_ns // 1_000_000)
        self.turn += 1
        time = self.time
        time.begin_turn(now_ns)
        switch, exempt = time.switch, time.exempt
        unwatched = self._unwatched
        unwatched.clear()
        if self._holding_readable:
            ready = self._with_holding(ready)
        wanted = self._watches.wanted
        for fd, events in ready:
            watch = wanted.get(fd)
            if watch is None or (unwatched and fd in unwatched):
                continue
            wanted_events, callback = watch
            if events != wanted_events:
                events = self._wanted_part(fd, events, wanted_events)
                if not events:
                    continue
            callback(events)
            switch(exempt)
        if self._timers:
            self._run_timers()
        # Calls that these post run in the next turn, so that they cannot block the loop.
        posted = self._posted
        if posted:
            for _ in range(len(posted)):
                posted.popleft()()
                switch(exempt)
        # Calls deferred by deferred calls run in this turn too, because they continue its work.
        deferred = self._deferred
        if deferred:
            time.payer = time.shared
            while deferred:
                deferred.popleft()()
            switch(exempt)
        time.end_turn(self.now_ms)

    def close(self) -> None:
        self._poller.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def timer_cancelled(self) -> None:
        """A timer was cancelled; compacts the heap before it is mostly stale."""
        self._cancelled_count += 1
        if self._cancelled_count > COMPACT_TIMERS_ABOVE and self._cancelled_count * 2 > len(
            self._timers
        ):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled_count = 0

    def _wait_seconds(self, max_wait_ms: int | None) -> float | None:
        if self._posted or self._deferred or self._holding_readable:
            return 0.0
        wait_ms = max_wait_ms
        if self._timers:
            now_ms = self.monotonic_ns() // 1_000_000
            until_timer_ms = max(0, self._timers[0][0] - now_ms)
            wait_ms = until_timer_ms if wait_ms is None else min(wait_ms, until_timer_ms)
        return None if wait_ms is None else wait_ms / 1000.0

    def _with_holding(self, ready: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ready descriptors, plus READABLE for those whose transports hold bytes."""
        events_of = dict(ready)
        for fd in self._holding_readable:
            events_of[fd] = events_of.get(fd, 0) | READABLE
        return list(events_of.items())

    def _wanted_part(self, fd: int, events: int, wanted: int) -> int:
        """Those of the reported events that are wanted now; all of them for a lost connection."""
        if events & ~READABLE_AND_WRITABLE:
            events = READABLE_AND_WRITABLE
        events &= wanted
        if not events:
            self._watches.ignore(fd)
        return events

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self.now_ms:
            timer = heapq.heappop(self._timers)[2]
            callback = timer.callback
            if callback is None:
                self._cancelled_count -= 1
                continue
            timer.callback = None
            callback()
            self.time.switch(self.time.exempt)

    def _on_wake(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        self._is_woken = False  # after the read, which could consume the byte of a later call


def _nothing() -> None:
    return


def _number(source: HasFileno | int) -> int:
    return source if isinstance(source, int) else source.fileno()
