"""The figures of groups for metrics: progress and counters."""

import dataclasses

from cluster.coordinator.groups.requests import TopicsDeleted
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.views.queries import ListGroupIds, ListRebalances, MeasureProgress
from cluster.metrics.events import Event, EventKind
from cluster.model.error_codes import ErrorCode
from tests.support.consumer_stage import Consumer, ConsumerStage
from tests.support.group_stage import DELAY_MS, GROUP, GroupStage


def counted(stage: GroupStage) -> tuple[int, ...]:
    """Commits, expirations, deletions, rebalances of the classic protocol."""
    _events, *classic, _consumer = dataclasses.astuple(stage.counts)
    return tuple(classic)


def test_progress_of_a_classic_group():
    stage = GroupStage().loaded()
    assert stage.ask(ListGroupIds()) == []
    assert stage.ask(MeasureProgress(GROUP)) is None
    member, joining = stage.join_new()
    stage.pass_time(DELAY_MS)
    generation = stage.answers[joining].generation_id
    stage.pass_time(7)
    stage.sync(member, generation, {member: b"all"})
    stage.commit({("orders", 0): 5, ("orders", 2): 9}, member, generation)
    stage.pass_time(50)
    (group,) = stage.ask(ListGroupIds())
    found = stage.ask(MeasureProgress(group))
    assert found is not None
    assert (found.group_id, found.group_type, found.protocol_type) == (GROUP, "classic", "consumer")
    assert (found.state, found.generation, found.members) == ("Stable", 1, 1)
    assert found.committed == {"orders": {0: 5, 2: 9}}
    assert found.state_times_ms == {
        "Empty": 0,
        "PreparingRebalance": DELAY_MS,
        "CompletingRebalance": 7,
        "Stable": 50,
    }
    assert counted(stage) == (2, 0, 0, 1)
    assert stage.counts.events.take() == [
        Event(EventKind.REBALANCE, GROUP, "generation 1, 1 member", 1)
    ]
    stage.commit({("orders", 0): 6}, member, generation)
    assert found.committed["orders"][0] == 5  # earlier results do not change


def test_progress_of_a_consumer_group():
    stage = ConsumerStage().loaded()
    member = Consumer(stage, "m")
    member.beat()
    member.beat()
    stage.commit({("orders", 0): 5}, "m", member.epoch)
    stage.pass_time(50)
    assert stage.ask(ListGroupIds()) == [GROUP]
    found = stage.ask(MeasureProgress(GROUP))
    assert found is not None
    assert (found.group_id, found.group_type, found.protocol_type) == (GROUP, *["consumer"] * 2)
    assert (found.state, found.generation, found.members) == ("Stable", 1, 1)
    assert found.committed == {"orders": {0: 5}}
    assert found.state_times_ms["Stable"] == 50
    assert stage.ask(ListRebalances())[GROUP] == stage.rebalances()
    stage.perform(stage.shard.unload(stage.now))
    assert len(list(stage.shard.forgetting_steps())) >= 1


def test_new_epochs_of_the_newer_consumer_protocol_are_counted_when_they_are_stored():
    stage = ConsumerStage().loaded()
    a = stage.consumer("a")
    assert stage.counts.consumer_rebalances == 1
    a.beat()
    assert stage.counts.consumer_rebalances == 1
    b = stage.consumer("b")
    stage.settle_down(a, b)
    assert stage.counts.consumer_rebalances == 2
    details = ["generation 1, 1 member", "generation 2, 2 members"]
    expected = [Event(EventKind.REBALANCE, GROUP, detail, 1) for detail in details]
    assert stage.counts.events.take() == expected
    stage.holds_appends = True
    stage.beat("a", -1)
    assert stage.counts.consumer_rebalances == 2
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.counts.consumer_rebalances == 2
    assert stage.counts.events.take() == []


def test_only_stored_changes_are_counted():
    stage = GroupStage().loaded()
    stage.holds_appends = True
    stage.commit()
    assert counted(stage) == (0, 0, 0, 0)
    stage.settle(ErrorCode.not_enough_replicas)
    assert counted(stage) == (0, 0, 0, 0)
    stage.commit()
    stage.settle()
    assert counted(stage) == (1, 0, 0, 0)


def test_removed_offsets_are_counted_by_reason():
    stage = GroupStage(GroupOptions()).loaded()
    for topic in ("a", "b", "c"):
        stage.commit({(topic, 0): 1, (topic, 1): 1})
    stage.submit(TopicsDeleted(["a"]))
    stage.pass_time(1)
    assert counted(stage) == (6, 0, 2, 0)
    stage.delete_groups(GROUP)
    assert counted(stage) == (6, 0, 6, 0)
    stage.commit({("d", 0): 1})
    options = stage.options
    stage.pass_time(options.offsets_retention_ms + 2 * options.retention_check_interval_ms)
    assert counted(stage) == (7, 1, 6, 0)
    assert stage.ask(ListGroupIds()) == []
