"""Which replicas are throttled, as updates of the controller and settings say."""

from collections.abc import Callable, Mapping

import pytest

from cluster.brokers.assembly.options import (
    replication_limits,
    replication_windows,
    throttled_replicas,
)
from cluster.brokers.replication.replication_throttles import Replicas, ReplicationThrottles
from cluster.config.settings import broker_settings
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from cluster.protocol.peer.control import ClusterUpdate
from tests.support.cluster_states import a_partition, a_topic

HERE = BrokerId(1)
SETTINGS = broker_settings({})
LEADER = "leader.replication.throttled.replicas"
FOLLOWER = "follower.replication.throttled.replicas"


class NoTimer:
    def cancel(self) -> None:
        return


def throttles_by(replicas_of: Callable[[Mapping[str, str]], Replicas]) -> ReplicationThrottles:
    return ReplicationThrottles(
        HERE,
        replication_windows(SETTINGS),
        lambda: MonotonicMs(0),
        lambda _at_ms, _call: NoTimer(),
        replicas_of,
    )


@pytest.fixture
def throttles() -> ReplicationThrottles:
    return throttles_by(lambda configs: throttled_replicas(SETTINGS, configs))


def update(
    *, deleted: tuple[str, ...] = (), is_full: bool = False, **configs: Mapping[str, str]
) -> ClusterUpdate:
    topics = tuple(a_topic(name, a_partition([1, 2]), configs=own) for name, own in configs.items())
    numbers = BrokerId(1), ControllerEpoch(1), BrokerEpoch(1)
    return ClusterUpdate(*numbers, is_full, (), topics, deleted)


def throttled(throttles: ReplicationThrottles, topic: str) -> tuple[list[int], list[int]]:
    """The throttled ones of three partitions as leaders, and as followers."""
    sides = (throttles.leader, throttles.follower)
    leaders, followers = (
        [number for number in range(3) if side.counts(TopicPartition(topic, number))]
        for side in sides
    )
    return leaders, followers


def test_replicas_of_this_broker_are_throttled_on_the_side_that_lists_them(throttles):
    throttles.on_update(update(t={LEADER: "0:1, 1:2,2:1", FOLLOWER: "1:1"}, u={FOLLOWER: "*"}))
    assert throttled(throttles, "t") == ([0, 2], [1])
    assert throttled(throttles, "u") == ([], [0, 1, 2])
    assert throttles.leader.is_active
    assert throttles.follower.is_active


def test_later_updates_replace_what_they_name(throttles):
    throttles.on_update(update(t={LEADER: "*"}, u={LEADER: "0:1"}, v={LEADER: "*"}))
    throttles.on_update(update(t={LEADER: "1:1"}, deleted=("v",)))
    assert throttled(throttles, "t") == ([1], [])
    assert throttled(throttles, "u") == ([0], [])
    assert throttled(throttles, "v") == ([], [])
    throttles.on_update(update(t={LEADER: "2:2"}, u={"retention.ms": "5"}))
    assert throttled(throttles, "u") == ([], [])
    throttles.on_update(update(is_full=True, w={}))
    assert not throttles.leader.is_active


def test_configs_that_stay_are_read_once_however_many_updates_have_them():
    read: list[Mapping[str, str]] = []

    def replicas_of(configs: Mapping[str, str]) -> Replicas:
        read.append(configs)
        return throttled_replicas(SETTINGS, configs)

    throttles = throttles_by(replicas_of)
    for numbers in ("0:1", "0:1", "1:1"):
        throttles.on_update(update(t={LEADER: numbers}, u={"retention.ms": "5"}))
    throttles.on_update(update(is_full=True, t={LEADER: "1:1"}))
    assert read == [{LEADER: "0:1"}, {"retention.ms": "5"}, {LEADER: "1:1"}]
    assert throttled(throttles, "t") == ([1], [])
    for again in ({}, {LEADER: "2:1"}):
        throttles.on_update(update(t=again))
    throttles.on_update(update(deleted=("t",)))
    assert not throttles.leader.is_active
    throttles.on_update(update(t={LEADER: "2:1"}))
    assert throttled(throttles, "t") == ([2], [])


def test_a_long_list_is_parsed_once_for_all_that_read_it():
    text = ",".join(f"{number}:1" for number in range(100))
    first, again = (
        throttled_replicas(SETTINGS, {LEADER: "".join(parts)})[0] for parts in (text, list(text))
    )
    assert len(first) == 100
    assert first is again


def test_an_invalid_list_in_the_registry_throttles_nothing(throttles):
    throttles.on_update(update(t={LEADER: "all of them"}, u={LEADER: "*"}))
    assert throttled(throttles, "t") == ([], [])
    assert throttled(throttles, "u") == ([0, 1, 2], [])


def test_rates_are_those_of_the_settings_and_the_largest_is_none(throttles):
    assert replication_limits(SETTINGS) == (None, None)
    given = {"leader.replication.throttled.rate": "0", "follower.replication.throttled.rate": "7"}
    throttles.set_limits(replication_limits(broker_settings(given)))
    assert (throttles.leader.quota.limit, throttles.follower.quota.limit) == (0, 7)
