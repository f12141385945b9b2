"""Makes the preferred leaders of brokers as many, by the order of replicas alone. Pure."""

from collections import Counter
from collections.abc import Collection
from itertools import islice, pairwise
from typing import Final

from cluster.balancing.draft import Draft
from cluster.balancing.paths import improving_path
from cluster.model.ids import BrokerId

_LOOKED_AT: Final = 64
"""Partitions of which that of the most unevenly led topic changes its leader."""


def even_leaders(draft: Draft, only: Collection[int] | None = None) -> None:
    """Put other replicas first until leaders are even; nothing is copied for that.

    `only` are the partitions that may change, None for all.
    """
    stay = set(draft.targets)
    counts = dict.fromkeys(draft.targets, 0)
    of_topic: Counter[tuple[str, BrokerId]] = Counter()
    handed: dict[BrokerId, dict[BrokerId, dict[int, None]]] = {
        leader: {broker: {} for broker in draft.targets} for leader in draft.targets
    }
    """The partitions of each leader, by the other replicas that could lead."""

    def change(index: int, by: int) -> None:
        leader, *followers = draft.replicas[index]
        if leader not in stay:
            return
        counts[leader] += by
        of_topic[draft.partitions[index].topic, leader] += by
        if draft.is_fixed[index] or (only is not None and index not in only):
            return
        for broker in stay.intersection(followers):
            if by > 0:
                handed[leader][broker][index] = None
            else:
                del handed[leader][broker][index]

    for index, replicas in enumerate(draft.replicas):
        if replicas:
            change(index, 1)
    while True:
        neighbors = {
            leader: [broker for broker, rows in others.items() if rows]
            for leader, others in handed.items()
        }
        path = improving_path(counts, neighbors)
        if path is None:
            return
        for leader, broker in pairwise(path):

            def excess(index: int, old: BrokerId = leader, new: BrokerId = broker) -> int:
                topic = draft.partitions[index].topic
                return of_topic[topic, old] - of_topic[topic, new]

            index = max(islice(handed[leader][broker], _LOOKED_AT), key=excess)
            change(index, -1)
            draft.replicas[index].remove(broker)
            draft.replicas[index].insert(0, broker)
            change(index, 1)
