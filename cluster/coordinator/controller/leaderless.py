"""Logs why partitions have no leader, and what they wait for. Pure except for the log."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.model.cluster import PartitionState
from cluster.model.ids import BrokerId, TopicPartition

log = logging.getLogger(__name__)

_LINES_MAX: Final = 16


def report_leaderless(changed: Mapping[TopicPartition, PartitionState]) -> None:
    """Log one line for each of the first partitions that lost their leader, then the number of the
    others.

    Partitions that wait for brokers which may lead, as while a cluster starts, share a line at
    INFO.
    """
    waiting = [(name, state) for name, state in changed.items() if not state.has_leader]
    awaited = Counter(frozenset(_may_lead(state)) for _, state in waiting if _may_lead(state))
    for brokers, count in awaited.items():
        log.info("%d partitions wait for broker %s to lead them", count, _either(brokers))
    others = [(name, state) for name, state in waiting if not _may_lead(state)]
    for name, state in others[:_LINES_MAX]:
        log.error("%s", why_leaderless(name, state))
    if len(others) > _LINES_MAX:
        log.error("... and %d more partitions have no leader", len(others) - _LINES_MAX)


def why_leaderless(name: TopicPartition, state: PartitionState) -> str:
    """The reason why a partition has no leader, in one line."""
    if may_lead := _may_lead(state):
        waits = f"broker {_either(may_lead)}, which has all committed records"
        return f"{name} has no leader: it waits for {waits}"
    doubtful = [each.broker for each in state.doubtful if each.is_there]
    gone = [each.broker for each in state.doubtful if not each.is_there]
    if doubtful:
        return (
            f"{name} has no leader: its replicas may have lost committed records, and the one"
            f" that has most of them leads when all are back (brokers {sorted(doubtful)});"
            f" {_unclean(name)} does not wait"
        )
    if gone:
        return (
            f"{name} has no leader: the replicas that had its committed records are gone (brokers"
            f" {sorted(gone)}: disks wiped, not mounted, or not in log.dirs any more). Mount or"
            f" restore them and restart those brokers; {_unclean(name)} gives the records up"
        )
    return (
        f"{name} has no leader: no replica is left that has its committed records;"
        f" {_unclean(name)} gives them up"
    )


def _may_lead(state: PartitionState) -> tuple[BrokerId, ...]:
    return (*state.isr, *state.eligible)


def _either(brokers: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(brokers)))


def _unclean(name: TopicPartition) -> str:
    return (
        f"`partitions elect-leaders --election-type unclean --topic {name.topic}"
        f" --partition {name.partition}`"
    )
