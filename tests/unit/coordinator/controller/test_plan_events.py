"""The controller's decisions as events for the metrics topic."""

from dataclasses import replace

from cluster.coordinator.controller.plan_events import (
    note_changed_brokers,
    note_changed_partitions,
)
from cluster.metrics.events import EVENTS_MAX, Event, EventKind, EventLog
from cluster.model.cluster import ClusterState
from cluster.model.ids import BrokerEpoch, BrokerId, TopicPartition
from tests.support.cluster_states import a_broker, a_partition, a_topic


def changes(before: ClusterState, **after: object) -> list[Event]:
    """`orders_0=state` means that the partition has this state now."""
    events = EventLog()
    changed = {}
    for name, state in after.items():
        topic, _, number = name.rpartition("_")
        changed[TopicPartition(topic, int(number))] = state
    note_changed_partitions(events, changed, before)  # type: ignore[arg-type]
    return events.take()


def a_state(*topics: object) -> ClusterState:
    state = ClusterState()
    for topic in topics:
        state.put_topic(topic)  # type: ignore[arg-type]
    return state


def test_elections_and_isr_changes_are_reported_by_topic():
    before = a_state(
        a_topic("orders", a_partition([0, 1, 2]), a_partition([1, 2, 0])),
        a_topic("audit", a_partition([0, 1], isr=[0])),
    )
    found = changes(
        before,
        orders_0=a_partition([0, 1, 2], isr=[1, 2], leader=1),
        orders_1=a_partition([1, 2, 0], isr=[1, 2]),
        audit_0=a_partition([0, 1], isr=[0, 1]),
    )
    assert found == [
        Event(EventKind.ELECTION, "orders", "0: 0->1", 1),
        Event(EventKind.ISR_SHRINK, "orders", "0: 0/1/2->1/2, 1: 1/2/0->1/2", 2),
        Event(EventKind.ISR_EXPAND, "audit", "0: 0->0/1", 1),
    ]


def test_reassignments_are_reported_when_they_begin_and_end():
    begun = replace(
        a_partition([2, 3, 1], [1, 2], 1), adding=(BrokerId(3),), removing=(BrokerId(1),)
    )
    done = a_partition([2, 3])
    before = a_state(a_topic("orders", a_partition([1, 2]), begun, begun, a_partition([1, 2])))
    found = changes(
        before,
        orders_0=begun,
        orders_1=done,
        orders_2=a_partition([2, 1], [2, 1], 1),
        orders_3=a_partition([2, 1], [1, 2], 1),
    )
    moves = "0: 1/2->2/3 begun, 1: 2/1->2/3 done, 2: 2/1 kept, cancelled, 3: 1/2->2/1 done"
    assert Event(EventKind.REASSIGNMENT, "orders", moves, 4) in found


def test_some_of_thousands_of_topics_are_named_and_all_are_counted():
    names = [f"topic-{number}" for number in range(250)]
    before = a_state(*(a_topic(name, a_partition([0, 1]), a_partition([0, 1])) for name in names))
    after = a_partition([0, 1], leader=1)
    found = changes(before, **{f"{name}_{number}": after for name in names for number in (0, 1)})
    assert found[0] == Event(EventKind.ELECTION, "topic-0", "0: 0->1, 1: 0->1", 2)
    assert [each.subject for each in found] == [*names[:EVENTS_MAX], "_other"]
    assert sum(each.count for each in found) == 500


def test_a_partition_without_a_leader_is_reported():
    before = a_state(a_topic("orders", a_partition([0], isr=[0])))
    found = changes(before, orders_0=a_partition([0], isr=[0], leader=-1))
    assert found == [Event(EventKind.ELECTION, "orders", "0: 0->none", 1)]


def test_invisible_changes_are_no_events():
    before = a_state(a_topic("orders", a_partition([0, 1])))
    assert changes(before, orders_0=a_partition([0, 1], partition_epoch=1)) == []
    assert changes(before, gone_0=a_partition([0, 1])) == []


def test_many_partitions_are_one_event_with_a_short_detail():
    before = a_state(a_topic("orders", *[a_partition([0, 1])] * 1_000))
    after = {f"orders_{number}": a_partition([0, 1], leader=1) for number in range(1_000)}
    (event,) = changes(before, **after)
    assert (event.kind, event.count) == (EventKind.ELECTION, 1_000)
    assert event.detail.startswith("0: 0->1, 1: 0->1")
    assert event.detail.endswith(" more")
    assert len(event.detail) <= 500


def test_lost_new_and_returned_brokers_are_reported():
    events = EventLog()
    now = [a_broker(BrokerId(2), epoch=9), a_broker(BrokerId(3), epoch=8)]
    before = {BrokerId(1): BrokerEpoch(4), BrokerId(2): BrokerEpoch(5)}
    note_changed_brokers(events, before, now)
    live = "live brokers: 2, 3"
    assert events.take() == [
        Event(EventKind.BROKER_DOWN, "1", live, 1),
        Event(EventKind.BROKER_DOWN, "2", live, 1),
        Event(EventKind.BROKER_UP, "2", f"epoch 9, {live}", 1),
        Event(EventKind.BROKER_UP, "3", f"epoch 8, {live}", 1),
    ]
    note_changed_brokers(events, {each.id: each.epoch for each in now}, now)
    assert events.take() == []
