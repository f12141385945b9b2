"""Makes brokers hold as many replicas as each other. Pure."""

from itertools import pairwise

from cluster.balancing.draft import Draft
from cluster.balancing.paths import improving_path
from cluster.model.ids import BrokerId


def even_counts(draft: Draft) -> int:
    """Move replicas until no chain of moves makes counts more even; returns how many moved."""
    moved = 0
    neighbors = None
    is_fresh = True
    while True:
        counts = draft.counts()
        if max(counts.values(), default=0) - min(counts.values(), default=0) < 2:
            return moved
        if neighbors is None:
            neighbors, is_fresh = _neighbors(draft), True
        path = improving_path(counts, neighbors)
        steps = 0 if path is None else _move_along(draft, path)
        if steps > 0:
            moved += steps
            is_fresh = False
        elif is_fresh:
            return moved
        else:
            neighbors = None


def _neighbors(draft: Draft) -> dict[BrokerId, list[BrokerId]]:
    """The brokers to which some partition of each broker may move."""
    return {
        source: [
            target
            for target in draft.targets
            if target != source and next(draft.movable(source, target), None) is not None
        ]
        for source in draft.targets
    }


def _move_along(draft: Draft, path: list[BrokerId]) -> int:
    """Move one replica along each step; returns how many moved, 0 if the chain is broken."""
    first, last = path[0], path[-1]
    times = (len(draft.held[first]) - len(draft.held[last])) // 2
    wanted_bytes = max(0.0, (draft.size_bytes[first] - draft.size_bytes[last]) / 2 / times)
    done: list[tuple[int, BrokerId, BrokerId]] = []
    for source, target in pairwise(path):
        index = draft.chosen(source, target, wanted_bytes)
        if index is None:  # what could make that step has moved meanwhile
            for earlier, origin, place in reversed(done):
                draft.move(earlier, place, origin)
            return 0
        draft.move(index, source, target)
        done.append((index, source, target))
        wanted_bytes = draft.sizes[index]
    return len(done)
