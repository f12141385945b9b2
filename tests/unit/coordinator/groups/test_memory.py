"""Removed objects are freed without a garbage collection. Collections leave out long-lived objects
(`runtime/collector.py`), so members and groups must not form reference cycles."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cluster.model.error_codes import ErrorCode
from tests.support.classic_client import ClassicClient
from tests.support.consumer_stage import ConsumerStage
from tests.support.group_stage import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, GroupStage


@contextmanager
def nothing_is_left_to_collect() -> Iterator[None]:
    """Check that the block leaves no unreachable object of the coordinator."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        left = {
            type(each).__name__ for each in gc.garbage if "coordinator" in type(each).__module__
        }
        assert left == set()
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def settled(stage: GroupStage, count: int = 3) -> list[str]:
    """A number of members, each with the assignment `x`; in generation 1."""
    joining = [stage.join_new() for _ in range(count)]
    stage.pass_time(REBALANCE_MS)
    members = [member for member, _ in joining]
    leader = stage.joined(joining[0][1]).leader
    for member in members:
        stage.sync(member, 1, dict.fromkeys(members, b"x") if member == leader else None)
    return members


def leave_one_by_one(stage: GroupStage) -> None:
    for member in settled(stage):
        stage.leave(member)
    stage.delete_groups(GROUP)


def time_out(stage: GroupStage) -> None:
    settled(stage)
    stage.pass_time(SESSION_MS + REBALANCE_MS)
    stage.delete_groups(GROUP)


def use_no_member_id(stage: GroupStage) -> None:
    stage.join()
    stage.pass_time(SESSION_MS + REBALANCE_MS)


def commit_alone(stage: GroupStage) -> None:
    stage.commit()
    stage.delete_groups(GROUP)


@pytest.mark.parametrize("live", [leave_one_by_one, time_out, use_no_member_id, commit_alone])
def test_a_removed_group_is_freed_without_garbage_collection(
    live: Callable[[GroupStage], None],
) -> None:
    stage = GroupStage().loaded()
    with nothing_is_left_to_collect():
        live(stage)
        stage.pass_time(REBALANCE_MS)  # alarms that are not needed any more
        assert stage.state() == "Dead"


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_enough_replicas])
def test_a_converted_group_is_freed_without_garbage_collection(error: ErrorCode) -> None:
    stage = ConsumerStage().loaded()
    with nothing_is_left_to_collect():
        old = [ClassicClient(stage) for _ in range(2)]
        for _ in range(4):
            for each in old:
                each.step()
            stage.pass_time(DELAY_MS)
        assert stage.state() == "Stable"
        stage.holds_appends = True
        new = stage.stranger("new")
        new.ask()
        stage.settle(error)
        stage.holds_appends = False
        new.beat()
        for _ in range(4):
            new.beat()
            for each in old:
                each.step()
        new.leave()
        assert [each.group_type for each in stage.listed()] == ["classic"]
        for each in old:
            each.leave()
        stage.pass_time(SESSION_MS + REBALANCE_MS)
        stage.delete_groups(GROUP)
        assert stage.state() == "Dead"


def test_an_unloaded_shard_is_freed_in_steps() -> None:
    with nothing_is_left_to_collect():
        stage = GroupStage().loaded()
        settled(stage)
        stage.join()
        stage.commit({(f"topic-{number}", 0): 1 for number in range(10)}, group="other")
        stage.commit(group="third")
        stage.unload()
        assert sum(1 for _ in stage.shard.forgetting_steps()) >= 10 + 3
        assert stage.committed("other") == {}
        stage.answers.clear()


def test_an_unloaded_shard_lists_no_groups() -> None:
    stage = GroupStage().loaded()
    settled(stage)
    stage.unload()
    assert stage.listed() == []
    assert stage.described_classic() is None
