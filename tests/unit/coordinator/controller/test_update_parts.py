"""Large updates in parts: every partition once, in order, and complete at the other end."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.controller.update_parts import UpdateParts, parts_of
from cluster.model.cluster import TopicState
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.protocol.peer.control import ClusterUpdate
from tests.support.cluster_states import a_broker, a_partition
from tests.support.fake_control_link import over_the_wire


def an_update(*counts: int) -> ClusterUpdate:
    topics = tuple(
        TopicState(
            f"t{slot}", uuid.UUID(int=slot), {"a": "b"}, {n: a_partition([1]) for n in range(count)}
        )
        for slot, count in enumerate(counts)
    )
    return ClusterUpdate(
        BrokerId(1), ControllerEpoch(3), BrokerEpoch(100), True, (a_broker(1),), topics, ("gone",)
    )


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(1, 10))
def test_parts_are_small_and_add_up_to_the_update(counts: list[int], size: int) -> None:
    update = an_update(*counts)
    parts = [over_the_wire(part) for part in parts_of(update, size)]

    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert all(sum(len(t.partitions) for t in part.topics) <= size for part in parts)
    received = UpdateParts()
    *earlier, whole = [received.add(part) for part in parts]
    assert earlier == [None] * (len(parts) - 1)
    assert whole == replace(update, is_last=True)
    assert not received.is_incomplete


def test_a_small_update_is_its_only_part() -> None:
    update = an_update(3, 2)
    assert list(parts_of(update)) == [update]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_an_update_with_a_lost_part_is_ignored(lost: int) -> None:
    parts = list(parts_of(an_update(10), 3))
    received = UpdateParts()
    assert [received.add(part) for part in parts if part.part != lost] == [None] * (len(parts) - 1)
    assert [received.add(part) for part in parts][-1] == an_update(10)


def test_parts_of_another_controller_do_not_complete_an_update() -> None:
    first, second = parts_of(an_update(4), 2)
    received = UpdateParts()
    received.add(first)
    assert received.add(replace(second, controller_epoch=ControllerEpoch(4))) is None
    assert not received.is_incomplete


def test_a_new_update_replaces_an_incomplete_one() -> None:
    received = UpdateParts()
    received.add(next(iter(parts_of(an_update(4), 2))))
    assert received.is_incomplete
    assert received.add(an_update(1)) == an_update(1)
