"""Another size, load or configuration than the history's, and its effect on loads. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cluster.model.errors import UserError


class ImpossibleScenario(UserError):
    """A scenario that is impossible, or that the history cannot answer."""

    def __init__(self, text: str, field: str | None = None) -> None:
        """`field` is the invalid one: `brokers`, `growth`, `retention` or `quota`; None for all."""
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Scenario:
    """The suppositions; values that are left out change nothing."""

    brokers: str | None = None
    """`+1`, `-1` or the total number of brokers."""
    growth: float = 0.0
    """The growth of clients' traffic: 0.3 is 30 % more. Above -1."""
    retention_s: float | None = None
    topic_retention_s: Mapping[str, float] = field(default_factory=dict)
    """The retention time of all topics, or of one by its name."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """A limit for each client id on each broker, by kind of quota."""

    def retention_of(self, topic: str) -> float | None:
        """The supposed retention in seconds; None without a supposition."""
        return self.topic_retention_s.get(topic, self.retention_s)

    def count(self, now: int) -> int:
        """The supposed number of brokers, when there are `now`. Raises ImpossibleScenario."""
        if self.brokers is None:
            return now
        is_change = self.brokers[0] in "+-"
        count = now + int(self.brokers) if is_change else int(self.brokers)
        if count < 1:
            there = f"there {'is 1 broker' if now == 1 else f'are {now} brokers'}"
            raise ImpossibleScenario(
                f"brokers {self.brokers}: {there} in the history, and at least one must remain",
                "brokers",
            )
        return count


@dataclass(frozen=True, slots=True)
class Spread:
    """How the brokers' load is spread over another number of brokers."""

    kept: list[int]
    added: list[int]
    removed: list[int]
    factor: float
    """The load of each remaining broker relative to before, with the same total traffic."""
    copies_now: float
    """Replicas of each record, as measured by replication."""
    copies: float
    """The same, bounded by the number of brokers."""

    @property
    def replication_factor(self) -> float:
        """Bytes of replication relative to before, with the same traffic and brokers."""
        if self.copies_now <= 1:
            return 1.0
        return (self.copies - 1) / (self.copies_now - 1)


def spread(scenario: Scenario, loads: Mapping[int, float], copies: float) -> Spread:
    """The spread, from the average load of each broker.

    Added brokers take an equal share from each existing one; of surplus brokers the highest ids go,
    and their load is spread in proportion. Raises ImpossibleScenario.
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
    """The average; 0 without values."""
    return sum(values) / len(values) if values else 0.0
