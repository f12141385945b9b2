"""Another size, load or configuration than the history's, and what it does to loads. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster.model.errors import UserError


class ImpossibleScenario(UserError):
    """A scenario that cannot be, or of which the history tells nothing."""

    def __init__(self, text: str, field: str | None = None) -> None:
        """`field` is what is wrong: `brokers`, `growth`, `retention` or `quota`; None for all."""
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is supposed; the values that are left out change nothing."""

    brokers: str | None = None
    """`+1`, `-1` or the number of brokers there are to be."""
    growth: float = 0.0
    """Of all traffic of clients: 0.3 is 30 % more. Above -1."""
    retention_s: float | None = None
    topic_retention_s: Mapping[str, float] = field(default_factory=dict)
    """Time for which records are kept: of all topics, or of one by its name."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """By kind of quota: a limit for each client id on each broker."""

    def retention_of(self, topic: str) -> float | None:
        """Seconds; None where nothing is supposed."""
        return self.topic_retention_s.get(topic, self.retention_s)

    def count(self, now: int) -> int:
        """How many brokers there are to be, of `now`. Raises ImpossibleScenario."""
        if self.brokers is None:
            return now
        is_change = self.brokers[0] in "+-"
        count = now + int(self.brokers) if is_change else int(self.brokers)
        if count < 1:
            there = f"there {'is 1 broker' if now == 1 else f'are {now} brokers'}"
            raise ImpossibleScenario(
                f"brokers {self.brokers}: {there} in the history, and one has to be left", "brokers"
            )
        return count


@dataclass(frozen=True, slots=True)
class Spread:
    """How the load of the brokers is spread over another number of them."""

    kept: list[int]
    added: list[int]
    removed: list[int]
    factor: float
    """The load of each broker that is kept, in terms of before, with the same traffic in all."""
    copies_now: float
    """Replicas of each record, as replication was measured."""
    copies: float
    """The same, with no more of them than brokers."""

    @property
    def replication_factor(self) -> float:
        """Bytes of replication, in terms of before, with the same traffic and brokers."""
        if self.copies_now <= 1:
            return 1.0
        return (self.copies - 1) / (self.copies_now - 1)


def spread(scenario: Scenario, loads: Mapping[int, float], copies: float) -> Spread:
    """From the average load of each broker. Added brokers take an equal share from each that is
    there; of too many the highest ids go, and what they had is spread in proportion.

    Raises ImpossibleScenario.
    """
    known = sorted(loads)
    count = scenario.count(len(known))
    kept, removed = known[:count], known[count:]
    added = list(range(known[-1] + 1, known[-1] + 1 + count - len(kept)))
    if removed:
        left = sum(loads[broker] for broker in kept)
        factor = sum(loads.values()) / left if left else len(known) / count
    else:
        factor = len(known) / count
    return Spread(kept, added, removed, factor, copies, min(copies, float(count)))


def average(values: Sequence[float]) -> float:
    """0 without any."""
    return sum(values) / len(values) if values else 0.0
