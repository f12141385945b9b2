"""Who keeps the loop's thread busy: its CPU time, divided among those for whom it works. Pure.

The thread's own CPU clock says how much there is to divide: everything, from the wake-up to the
last system call. It is a system call itself (0.6 us), so it is read at most once a millisecond.
The clock that says whose the time was (monotonic, 0.05 us) is read after each callback of the loop
and where work for somebody begins elsewhere. docs/decisions/032-request-time.md
"""

from collections.abc import Callable
from typing import Final

SETTLE_MS: Final = 1
"""Time is divided this often, in milliseconds."""


class Payer:
    """Somebody for whom the thread works: a connection, all of them, or nobody.

    Lifecycle: until `LoopTime.close`; what it owes by then, or later, goes to `on_closed`.
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
        """What is owed, in whole microseconds; from now on it is charged."""
        owed_us = self.owed_ns // 1_000
        self.owed_ns -= owed_us * 1_000
        return owed_us


class LoopTime:
    """Owned by the loop's thread. Nanoseconds everywhere.

    Invariant: `busy_ns` is the sum of what every payer was ever given, `exempt` among them.
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
        """The loop has woken up at this monotonic time: what was before is no work."""
        self.idle_ns += now_ns - self._lap_ns
        self._lap_ns = now_ns
        if self._cpu_ns < 0:
            self._cpu_ns = self._thread_cpu_ns()

    def switch(self, payer: Payer) -> Payer:
        """What follows is for `payer`. Returns who paid until now, to switch back to."""
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
        """Divide the time, unless that was done within this millisecond."""
        if now_ms - self._settled_ms >= SETTLE_MS:
            self._settled_ms = now_ms
            self.settle()

    def settle(self) -> None:
        """Divide the CPU time since the last time among those for whom the thread worked."""
        self.switch(self.payer)
        cpu_ns = self._thread_cpu_ns()
        # Less than none if the loop was made by another thread than the one that runs it.
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
        self.exempt.owed_ns += left_ns  # all of it if nobody is known, else what division left
        lapped.clear()
        if self._closed:
            self._charge_closed()

    def close(self, payer: Payer) -> None:
        """It sends no more requests: what it owes is charged when time is divided next."""
        self._closed.append(payer)

    def _charge_closed(self) -> None:
        closed, self._closed = self._closed, []
        for payer in closed:
            owed_ns, payer.owed_ns = payer.owed_ns, 0
            if payer.on_closed is None:
                self.exempt.owed_ns += owed_ns
            else:
                payer.on_closed(owed_ns)
