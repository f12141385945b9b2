"""Divides the CPU time of the loop's thread among the clients that it serves. Pure.

The thread's CPU clock gives the total, from the wake-up to the last system call. Reading it takes a
system call (0.6 us), so it is read at most once a millisecond. Monotonic timestamps (0.05 us),
taken after each callback of the loop and wherever work for another client begins, attribute the
total to clients. docs/decisions/032-request-time.md
"""

from collections.abc import Callable
from typing import Final

SETTLE_MS: Final = 1
"""Time is divided this often, in milliseconds."""


class Payer:
    """An account for CPU time: a connection, all of them, or nobody.

    Lifecycle: until `LoopTime.close`, which passes all outstanding time to `on_closed`.
    """

    __slots__ = ("lapped_ns", "on_closed", "owed_ns")

    def __init__(self) -> None:
        self.lapped_ns = 0
        """Since time was divided last: how long the thread worked for it, or was kept from it."""
        self.owed_ns = 0
        """CPU time that the thread spent on it, and that nobody was charged for."""
        self.on_closed: Callable[[int], None] | None = None
        """Takes the nanoseconds that are owed when there is no request left to charge."""

    def take_us(self) -> int:
        """Take the whole microseconds owed and mark them as charged."""
        owed_us = self.owed_ns // 1_000
        self.owed_ns -= owed_us * 1_000
        return owed_us


class LoopTime:
    """The CPU time accounting of a loop. Owned by the loop's thread. All values are nanoseconds.

    Invariant: `busy_ns` is the sum of the time given to all payers, including `exempt`.
    """

    def __init__(self, monotonic_ns: Callable[[], int], thread_cpu_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self._thread_cpu_ns = thread_cpu_ns
        self.exempt = Payer()
        """Pays for what is nobody's: timers, the controller, links to other brokers."""
        self.shared = Payer()
        """Pays for what is for all clients at once (followers' fetches, work at the end of a turn):
        its time is divided among them as their own is."""
        self.payer = self.exempt
        """Whose the time is since the last `switch`. A callback of the loop may set it; it is
        nobody's again when that returns."""
        self.busy_ns = 0
        """What was divided since the beginning."""
        self.idle_ns = 0
        """How long the loop waited for something to do."""
        self._lapped: list[Payer] = []
        self._closed: list[Payer] = []
        self._lap_ns = monotonic_ns()
        self._cpu_ns = -1
        self._settled_ms = 0

    def begin_turn(self, now_ns: int) -> None:
        """The loop woke up at this monotonic time; the time before it is not work."""
        self.idle_ns += now_ns - self._lap_ns
        self._lap_ns = now_ns
        if self._cpu_ns < 0:
            self._cpu_ns = self._thread_cpu_ns()

    def switch(self, payer: Payer) -> Payer:
        """Attribute the time from now on to `payer`. Returns the previous payer, to switch back
        to."""
        before = self.payer
        now_ns = self._monotonic_ns()
        lap_ns = now_ns - self._lap_ns
        if lap_ns:
            if not before.lapped_ns:
                self._lapped.append(before)
            before.lapped_ns += lap_ns
            self._lap_ns = now_ns
        self.payer = payer
        return before

    def end_turn(self, now_ms: int) -> None:
        """Divide the time, at most once per millisecond."""
        if now_ms - self._settled_ms >= SETTLE_MS:
            self._settled_ms = now_ms
            self.settle()

    def settle(self) -> None:
        """Divide the CPU time since the last division among the payers."""
        self.switch(self.payer)
        cpu_ns = self._thread_cpu_ns()
        # Negative if another thread than the loop's created the loop.
        spent_ns = max(0, cpu_ns - self._cpu_ns)
        self._cpu_ns = cpu_ns
        self.busy_ns += spent_ns
        lapped = self._lapped
        if self.shared.lapped_ns:
            lapped.remove(self.shared)
            self.shared.lapped_ns = 0
        total_ns = 0
        for payer in lapped:
            total_ns += payer.lapped_ns
        left_ns = spent_ns
        for payer in lapped:
            part_ns = spent_ns * payer.lapped_ns // total_ns
            payer.owed_ns += part_ns
            left_ns -= part_ns
            payer.lapped_ns = 0
        self.exempt.owed_ns += left_ns  # all of it without payers
        lapped.clear()
        if self._closed:
            self._charge_closed()

    def close(self, payer: Payer) -> None:
        """The payer sends no more requests; its outstanding time is charged at the next
        division."""
        self._closed.append(payer)

    def _charge_closed(self) -> None:
        closed, self._closed = self._closed, []
        for payer in closed:
            owed_ns, payer.owed_ns = payer.owed_ns, 0
            if payer.on_closed is None:
                self.exempt.owed_ns += owed_ns
            else:
                payer.on_closed(owed_ns)
