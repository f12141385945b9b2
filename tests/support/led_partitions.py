"""Leaders of partitions, without logs."""

from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch


def a_leader_with(*batches: tuple[int, int]) -> LeaderReplica:
    """The only replica of a partition, that these batches were appended to: records and bytes."""
    one, end = BrokerId(1), Offset(5)
    leader = LeaderReplica(
        one, LeaderEpoch(0), (one,), (one,), PartitionEpoch(0), end, end, MonotonicMs(0)
    )
    for records, size_bytes in batches:
        end = Offset(end + records)
        leader.on_appended(end, size_bytes, MonotonicMs(0))
    return leader
