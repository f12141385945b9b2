"""The records that the members of a group received together, and the group's figures. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.loadtest.sequence_check import Place, SequenceCheck

Run = tuple[int, int, int, int]
"""Producer, partition, and the first and the last of consecutive sequences."""


def as_runs(stamps: Iterable[tuple[int, int, int]]) -> list[Run]:
    """Group records, in order of arrival, into runs of consecutive sequences per producer and
    partition.

    Each record is given by producer, partition and sequence.
    """
    runs: list[Run] = []
    open_runs: dict[Place, int] = {}
    for producer, partition, sequence in stamps:
        index = open_runs.get((producer, partition))
        if index is not None and runs[index][3] + 1 == sequence:
            runs[index] = (producer, partition, runs[index][2], sequence)
        else:
            open_runs[producer, partition] = len(runs)
            runs.append((producer, partition, sequence, sequence))
    return runs


@dataclass(slots=True)
class MemberAccount:
    """The reports of one member, up to its end or its death."""

    received: list[tuple[int, list[Run]]] = field(default_factory=list)
    """With the time in us on the machine's clock."""
    positions: dict[int, int] = field(default_factory=dict)
    """The highest next offset by partition."""
    rebalances: Counter[str] = field(default_factory=Counter)
    """How often partitions were assigned to it, revoked or lost."""
    commits: int = 0
    failed_commits: int = 0
    is_killed: bool = False

    def take(self, message: Mapping[str, Any]) -> None:
        """Take in a message of kind `received` or `rebalance`."""
        if message["kind"] == "rebalance":
            self.rebalances[message["what"]] += 1
            return
        self.received.append((message["at_us"], [tuple(run) for run in message["runs"]]))
        for partition, position in message["positions"]:
            self.positions[partition] = max(position, self.positions.get(partition, 0))


def checks_of(members: Iterable[MemberAccount]) -> dict[Place, SequenceCheck]:
    """The records of each producer and partition at any member, in order of time."""
    checks: dict[Place, SequenceCheck] = defaultdict(SequenceCheck)
    told = sorted(
        (at_us, number, runs)
        for number, member in enumerate(members)
        for at_us, runs in member.received
    )
    for _, _, runs in told:
        for producer, partition, first, last in runs:
            checks[producer, partition].on_run(first, last)
    return dict(checks)


def is_all_read(members: Sequence[MemberAccount], ends: Mapping[int, int]) -> bool:
    """Whether some member has reached the end of each partition."""
    return all(
        any(member.positions.get(partition, 0) >= end for member in members)
        for partition, end in ends.items()
        if end > 0
    )


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The figures of the group of a load test."""

    group: str
    protocol: str
    members: int
    killed: Sequence[str]
    """The names of killed members."""
    rebalances: int
    """The most that one member took part in, that is assignments after its first."""
    lost_partitions: int
    """How often a member learned that it had lost its partitions."""
    commits: int
    failed_commits: int
    lag: int | None
    """The records at the end that the group had not committed; None if unknown."""


def group_result(
    group: str,
    protocol: str,
    members: Mapping[str, MemberAccount],
    lag: int | None,
) -> GroupResult:
    """The sum over all members."""
    accounts = list(members.values())
    return GroupResult(
        group,
        protocol,
        len(accounts),
        [name for name, each in members.items() if each.is_killed],
        max((max(0, each.rebalances["assigned"] - 1) for each in accounts), default=0),
        sum(each.rebalances["lost"] for each in accounts),
        sum(each.commits for each in accounts),
        sum(each.failed_commits for each in accounts),
        lag,
    )
