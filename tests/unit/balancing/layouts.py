"""Layouts for tests of the planner."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from cluster.balancing.replica_layout import Layout
from cluster.model.ids import BrokerId, TopicPartition

MIB = 1 << 20


def a_layout(
    racks: Sequence[str | None] | Mapping[int, str | None],
    replicas: Sequence[Sequence[int]],
    sizes: Sequence[int] = (),
    *,
    topics: int = 1,
) -> Layout:
    """Brokers 0 to n-1 in these racks, and partitions with these replicas and MiB."""
    numbered = racks if isinstance(racks, Mapping) else dict(enumerate(racks))
    names = [
        TopicPartition(f"t{number % topics}", number // topics) for number in range(len(replicas))
    ]
    return Layout(
        {BrokerId(broker): rack for broker, rack in numbered.items()},
        {
            name: tuple(BrokerId(broker) for broker in brokers)
            for name, brokers in zip(names, replicas, strict=True)
        },
        {name: size * MIB for name, size in zip(names, sizes, strict=False)},
    )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Up to 7 live brokers, dead ones, partitions of different factors and sizes."""
    count = draw(st.integers(1, 7))
    kinds = draw(
        st.sampled_from([st.sampled_from("abc"), st.sampled_from(["a", "b", None]), st.none()])
    )
    racks = draw(st.lists(kinds, min_size=count, max_size=count))
    everyone = list(range(count + draw(st.integers(0, 2))))
    lists = st.lists(st.sampled_from(everyone), min_size=1, max_size=4, unique=True)
    replicas = draw(st.lists(lists, max_size=30))
    sizes = draw(st.lists(st.integers(0, 300), min_size=len(replicas), max_size=len(replicas)))
    found = a_layout(racks, replicas, sizes, topics=draw(st.integers(1, 3)))
    fixed = draw(st.sets(st.sampled_from(sorted(found.replicas)), max_size=2)) if replicas else ()
    return Layout(found.racks, found.replicas, found.sizes, frozenset(fixed))


def shared_racks(layout: Layout, partition: TopicPartition) -> int:
    """How many pairs of its replicas are in one rack."""
    racks = Counter(layout.racks.get(broker, broker) for broker in layout.replicas[partition])
    return sum(count * (count - 1) // 2 for count in racks.values())


def fewest_shared_racks(layout: Layout, factor: int) -> int:
    """The fewest pairs in one rack that so many replicas on different live brokers can have."""
    room = Counter(layout.racks.values())
    used: Counter[str | None] = Counter()
    for _ in range(factor):
        rack = min((rack for rack in room if used[rack] < room[rack]), key=lambda rack: used[rack])
        used[rack] += 1
    return sum(count * (count - 1) // 2 for count in used.values())
