"""Reports the controller's changes as events: elections, in-sync replicas, brokers. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.metrics.events import EventKind, EventLog, listed
from cluster.model.cluster import BrokerRegistration, ClusterState, PartitionState
from cluster.model.ids import NO_BROKER, BrokerEpoch, BrokerId, TopicPartition

_Change = tuple[int, PartitionState, PartitionState]
"""The partition's number, its old state and its new state."""


def note_changed_partitions(
    events: EventLog, changed: Mapping[TopicPartition, PartitionState], before: ClusterState
) -> None:
    """Report the changes that are about to be applied: one event for each topic and kind."""
    found: defaultdict[tuple[EventKind, str], list[_Change]] = defaultdict(list)
    for partition, state in changed.items():
        old = before.partition(partition)
        if old is None:
            continue
        topic, number = partition
        change = (number, old, state)
        if state.leader != old.leader:
            found[EventKind.ELECTION, topic].append(change)
        if state.isr != old.isr:
            if not set(old.isr) <= set(state.isr):
                found[EventKind.ISR_SHRINK, topic].append(change)
            if not set(state.isr) <= set(old.isr):
                found[EventKind.ISR_EXPAND, topic].append(change)
        if (state.replicas, state.adding) != (old.replicas, old.adding):
            found[EventKind.REASSIGNMENT, topic].append(change)
    for (kind, topic), changes in found.items():
        detail = ""
        if events.has_room(kind):  # thousands of topics change at once when a broker fails
            detail = listed(map(_WORDS.get(kind, _isr_change), changes), len(changes))
        events.note(kind, topic, detail, len(changes))


def note_changed_brokers(
    events: EventLog,
    before: Mapping[BrokerId, BrokerEpoch],
    registrations: Iterable[BrokerRegistration],
) -> None:
    """Report the differences between the known live brokers and the new ones. A broker with another
    epoch was away."""
    now = {broker.id: broker.epoch for broker in registrations}
    live = "live brokers: " + (", ".join(map(str, sorted(now))) or "none")
    for broker in sorted(before):
        if now.get(broker) != before[broker]:
            events.note(EventKind.BROKER_DOWN, str(broker), live)
    for broker in sorted(now):
        if before.get(broker) != now[broker]:
            events.note(EventKind.BROKER_UP, str(broker), f"epoch {now[broker]}, {live}")


def _election(change: _Change) -> str:
    number, old, new = change
    return f"{number}: {_leader(old)}->{_leader(new)}"


def _leader(state: PartitionState) -> str:
    return "none" if state.leader == NO_BROKER else str(state.leader)


def _isr_change(change: _Change) -> str:
    number, old, new = change
    return f"{number}: {_members(old)}->{_members(new)}"


def _members(state: PartitionState) -> str:
    return _joined(state.isr) or "none"


def _reassignment(change: _Change) -> str:
    number, old, new = change
    before = _joined(old.original_replicas)
    if new.is_reassigning:
        target = [broker for broker in new.replicas if broker not in new.removing]
        return f"{number}: {before}->{_joined(target)} begun"
    if new.replicas == old.original_replicas:
        return f"{number}: {before} kept, cancelled"
    return f"{number}: {before}->{_joined(new.replicas)} done"


def _joined(brokers: Iterable[BrokerId]) -> str:
    return "/".join(map(str, brokers))


_WORDS: Final = {EventKind.ELECTION: _election, EventKind.REASSIGNMENT: _reassignment}
