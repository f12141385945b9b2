"""What `partitions balance` prints of a plan. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from cluster.balancing.carrying_out import Progress
from cluster.balancing.replica_layout import BrokerLoad, Layout, Moves
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.printable import one_line
from cluster.model.sizes import size_text

HEADINGS: Final = ("Broker", "Rack", "Leaders", "Replicas", "Size")
"""Of `load_rows`."""
RIGHT: Final = ("Broker", "Leaders", "Replicas", "Size")
_NAMED: Final = 20
"""Partitions that are listed; `--json` has all."""
_FEW: Final = 3
"""Partitions that an error names."""


def load_rows(layout: Layout, moves: Moves) -> list[list[str]]:
    """One row for each broker: what it has, and what it will have, where that changes."""
    before, after = layout.loads(), layout.after(moves).loads()
    return [
        [
            str(broker),
            layout.racks.get(broker) or ("" if broker in layout.racks else "(down)"),
            _change(old.leaders, new.leaders),
            _change(old.replicas, new.replicas),
            _sizes(old, new),
        ]
        for broker, old in before.items()
        for new in [after.get(broker, BrokerLoad())]
    ]


def move_lines(layout: Layout, moves: Moves) -> list[str]:
    """The partitions that change, with their replicas before and after."""
    lines = [
        f"{one_line(str(partition))}: {_ids(layout.replicas[partition])} -> {_ids(replicas)}"
        for partition, replicas in sorted(moves.items())[:_NAMED]
    ]
    if len(moves) > _NAMED:
        lines.append(f"... and {len(moves) - _NAMED} more (--json prints all)")
    return lines


def summary(layout: Layout, moves: Moves) -> str:
    """How many partitions change, and how much is copied."""
    copies = sum(
        len(set(replicas).difference(layout.replicas[partition]))
        for partition, replicas in moves.items()
    )
    reordered = sum(
        set(replicas) == set(layout.replicas[partition]) for partition, replicas in moves.items()
    )
    parts = []
    if copies:
        copied = size_text(layout.copied_bytes(moves))
        parts.append(f"{counted(copies, 'replica')} to copy ({copied})")
    if reordered:
        parts.append(f"{counted(reordered, 'partition')} with only another preferred leader")
    return f"{counted(len(moves), 'partition')} to change: {', '.join(parts)}."


def progress_line(progress: Progress) -> str:
    """How far a plan is carried out."""
    left = f", {size_text(progress.left_bytes)} left" if progress.left_bytes else ""
    waits = f"; waiting for broker {_ids(progress.down)}, down" if progress.down else ""
    return (
        f"{progress.done} of {counted(progress.total, 'partition')} done,"
        f" {progress.moving} moving{left}{waits}"
    )


def failure_lines(failed: Mapping[TopicPartition, str]) -> list[str]:
    """The partitions that could not move, and why."""
    return [f"{one_line(str(each))}: {one_line(why)}" for each, why in sorted(failed.items())]


def few(partitions: Iterable[TopicPartition]) -> str:
    """The names of some of them."""
    names = [one_line(str(partition)) for partition in sorted(partitions)]
    more = ", ..." if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def counted(number: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _change(old: int, new: int) -> str:
    return str(old) if old == new else f"{old} -> {new}"


def _sizes(old: BrokerLoad, new: BrokerLoad) -> str:
    before, after = size_text(old.size_bytes), size_text(new.size_bytes)
    return before if before == after else f"{before} -> {after}"


def _ids(brokers: Collection[BrokerId]) -> str:
    return ",".join(map(str, brokers))
