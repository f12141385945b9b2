"""Plans an even spread of leaders, replicas and bytes over brokers, with few moves. Pure.

In this order of importance: every replica is on a live broker that stays; the replicas of a
partition share racks as little as possible; brokers have as many replicas as each other, as many
bytes within a tolerance, and as many preferred leaders. A step that serves one of them never harms
one before it, so planning ends, and a plan that is carried out leaves nothing to do
(docs/decisions/063).
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from cluster.balancing.counts import even_counts
from cluster.balancing.draft import Draft
from cluster.balancing.exchanges import even_bytes
from cluster.balancing.leaders import even_leaders
from cluster.balancing.replica_layout import Layout, Moves
from cluster.model.ids import BrokerId, TopicPartition

TOLERANCE: Final = 0.1
"""A broker may have this part of the mean more or less bytes."""
_LEAST_BYTES: Final = 1 << 20
"""Smaller differences between brokers are not worth a move."""


class Plan(NamedTuple):
    """Replicas for the partitions that should move, or change their preferred leader."""

    moves: Moves
    stuck: Moves
    """What would be left of partitions without the brokers that leave, if no other live broker can
    take their replicas; empty: all records."""


def plan_even(
    layout: Layout,
    leaving: Collection[BrokerId] = (),
    *,
    tolerance: float = TOLERANCE,
    least_bytes: int = _LEAST_BYTES,
) -> Plan:
    """Spread everything over the live brokers that do not leave.

    `tolerance` is the part of the mean that a broker may have more or less in bytes.
    """
    draft = Draft(layout, layout.racks.keys() - set(leaving))
    stuck = _move_away(draft)
    while _part_racks(draft) + even_counts(draft) + even_bytes(draft, tolerance, least_bytes):
        draft.forget_candidates()
    even_leaders(draft)
    return Plan(draft.moves(), stuck)


def plan_without(leaving: Collection[BrokerId], layout: Layout) -> Plan:
    """Move replicas away from brokers, live or dead, and nothing else."""
    draft = Draft(layout, layout.racks.keys() - set(leaving), keeps_placed=True)
    stuck = _move_away(draft, leaving)
    while even_counts(draft) + even_bytes(draft, TOLERANCE, _LEAST_BYTES):
        draft.forget_candidates()
    moves = draft.moves()
    even_leaders(draft, {at for at, partition in enumerate(draft.partitions) if partition in moves})
    return Plan(draft.moves(), stuck)


def _move_away(draft: Draft, leaving: Collection[BrokerId] | None = None) -> Moves:
    """Replace replicas on brokers that leave (None: on all but the targets); the largest first."""
    sources = draft.held.keys() - set(draft.targets)
    if leaving is not None:
        sources &= set(leaving)
    stuck: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for index in sorted(range(len(draft.partitions)), key=lambda index: -draft.sizes[index]):
        for source in [broker for broker in draft.replicas[index] if broker in sources]:
            target = None if draft.is_fixed[index] else _best_target(draft, index, source)
            if target is not None:
                draft.move(index, source, target)
            else:
                kept = tuple(b for b in draft.replicas[index] if b not in sources)
                stuck[draft.partitions[index]] = kept
    return stuck


def _best_target(draft: Draft, index: int, source: BrokerId) -> BrokerId | None:
    """The broker for a replica: shared racks count most, then replicas, then bytes."""
    return min(
        (broker for broker in draft.targets if broker not in draft.replicas[index]),
        key=lambda broker: (
            draft.rack_change(index, source, broker),
            len(draft.held[broker]),
            draft.size_bytes[broker],
        ),
        default=None,
    )


def _part_racks(draft: Draft) -> int:
    """Move replicas that share a rack to racks with fewer of the partition; how many moved."""
    if not draft.has_racks:
        return 0
    moved = 0
    for index, replicas in enumerate(draft.replicas):
        while not draft.is_fixed[index] and draft.shares_racks(index):
            steps = [
                (draft.rack_change(index, source, target), -len(draft.held[source]), source, target)
                for source in replicas
                if source in draft.targets
                and (target := _best_target(draft, index, source)) is not None
            ]
            if not steps or min(steps)[0] >= 0:
                break
            _, _, source, target = min(steps)
            draft.move(index, source, target)
            moved += 1
    return moved
