"""What it takes to have no replica on a broker that leaves. Pure."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from cluster.balancing.plan import plan_without
from cluster.balancing.replica_layout import Layout, Moves
from cluster.model.ids import BrokerId, TopicPartition


class Departure(NamedTuple):
    """The partitions of a broker that leaves."""

    moves: Moves
    """New replicas of those that keep their number of replicas."""
    shorter: Moves
    """The replicas that are left of those for which there is no other broker."""
    bound: tuple[TopicPartition, ...]
    """Those that cannot leave: no other broker has their records, or can get them."""


def plan_departure(
    leaving: BrokerId, layout: Layout, in_sync: Mapping[TopicPartition, Collection[BrokerId]]
) -> Departure:
    """Replace the replicas of one broker, live or dead; `in_sync` is the ISR of each partition."""
    plan = plan_without([leaving], layout)
    shorter, bound = {}, []
    for partition, kept in plan.stuck.items():
        sources = layout.racks.keys() & set(kept) & set(in_sync.get(partition, ()))
        if partition in layout.fixed or not sources:
            bound.append(partition)
        else:
            shorter[partition] = kept
    return Departure(plan.moves, shorter, tuple(sorted(bound)))
