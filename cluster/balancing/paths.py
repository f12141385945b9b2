"""Chains of moves that make the counts of brokers more even. Pure."""

from collections.abc import Collection, Mapping

from cluster.model.ids import BrokerId


def improving_path(
    counts: Mapping[BrokerId, int], neighbors: Mapping[BrokerId, Collection[BrokerId]]
) -> list[BrokerId] | None:
    """A shortest chain from a broker with more to one with at least 2 fewer, or None.

    Moving one thing along each of its steps takes one from the first broker and gives it to the
    last. `neighbors` are the brokers that can take something from a broker. No chain is left when
    the counts are as even as they can become.
    """
    lowest = min(counts.values(), default=0)
    for source in sorted(counts, key=lambda broker: (-counts[broker], broker)):
        if counts[source] - lowest < 2:
            return None
        before = _reached(source, neighbors)
        target = min(before, key=lambda broker: (counts[broker], broker))
        if counts[source] - counts[target] >= 2:
            path = [target]
            while path[-1] != source:
                path.append(before[path[-1]])
            return path[::-1]
    return None


def _reached(
    source: BrokerId, neighbors: Mapping[BrokerId, Collection[BrokerId]]
) -> dict[BrokerId, BrokerId]:
    """The brokers at the ends of chains, each with the one before it in a shortest chain."""
    before = {source: source}
    queue = [source]
    for broker in queue:
        for following in sorted(neighbors[broker]):
            if following not in before:
                before[following] = broker
                queue.append(following)
    return before
