"""Says why partitions have no leader, and what ends that. Pure, but for the log."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.model.cluster import PartitionState
from cluster.model.ids import TopicPartition

log = logging.getLogger(__name__)

_LINES_MAX: Final = 16


def report_leaderless(changed: Mapping[TopicPartition, PartitionState]) -> None:
    """One line for each partition whose new state has no leader, up to a few, then their number."""
    waiting = [(name, state) for name, state in changed.items() if not state.has_leader]
    for name, state in waiting[:_LINES_MAX]:
        log.error("%s", why_leaderless(name, state))
    if len(waiting) > _LINES_MAX:
        log.error("... and %d more partitions have no leader", len(waiting) - _LINES_MAX)


def why_leaderless(name: TopicPartition, state: PartitionState) -> str:
    """What a partition without a leader waits for, in one line."""
    may_lead = [*state.isr, *state.eligible]
    if may_lead:
        waits = f"broker {_either(may_lead)}, which has all committed records"
        return f"{name} has no leader: it waits for {waits}"
    if state.doubtful:
        doubtful = [each.broker for each in state.doubtful]
        return (
            f"{name} has no leader: its replicas may have lost committed records, and the one"
            f" that has most of them leads when all are back (brokers {sorted(doubtful)});"
            f" {_unclean(name)} does not wait"
        )
    return (
        f"{name} has no leader: no replica is left that has its committed records; if none comes"
        f" back, {_unclean(name)} gives the records up"
    )


def _either(brokers: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(brokers)))


def _unclean(name: TopicPartition) -> str:
    return (
        f"`partitions elect-leaders --election-type unclean --topic {name.topic}"
        f" --partition {name.partition}`"
    )
