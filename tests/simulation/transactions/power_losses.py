"""Machines that lose what they have not synced, one at a time."""

from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import STEPS
from tests.simulation.transactions.histories import TransactionHistory
from tests.simulation.unsynced import Disks


class TransactionPowerLosses(TransactionHistory):
    """One machine loses power, and the next one when all replicas have what is committed.

    That is what replication promises to survive with `min.insync.replicas=2`. Processes die, are
    paused and cut off at any time.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        cluster.checks.members_may_lack_records = True
        self._disks = Disks(self._random)
        self._actions.append((24, self._lose_power))
        self._count = 0
        """Machines that have lost power."""

    def run(self, steps: int = STEPS) -> None:
        with self._disks.recorded(self._cluster.directory):
            super().run(steps)

    def _lose_power(self) -> None:
        cluster = self._cluster
        if not self._has_everybody_what_is_committed():
            return
        number = self._any_broker()
        cluster.crash(number, noticed=self._random.random() < 0.7)
        for path in self._cluster.brokers[number].paths:
            changed = self._disks.lose_power(path)
        cluster.note_boot(number)
        cluster.world.note(f"machine {number} has lost power: {', '.join(changed)}")
        self._count += 1
        delay_ms = self._random.choice([0, 10, 100, 3_000])
        cluster.world.after(delay_ms, lambda: cluster.start(number))

    def _has_everybody_what_is_committed(self) -> bool:
        """All brokers run, all replicas are in sync, and that is true."""
        cluster = self._cluster
        if not all(broker.is_up for broker in cluster.brokers.values()):
            return False
        for partition, replicas in cluster.assignment.items():
            state = cluster.registered_state(partition)
            if state is None or state.leader < 0 or set(state.isr) != set(replicas):
                return False
            found = [cluster.brokers[number].table.find(partition) for number in replicas]
            if any(each is None or each.leader_epoch != state.leader_epoch for each in found):
                return False
            committed = max(each.high_watermark for each in found)
            if any(each.log.log_end_offset < committed for each in found):
                return False
        return True
