"""The controller's plans, event by event."""

import uuid
from collections import deque
from dataclasses import replace
from random import Random

import pytest

from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.model.cluster import BrokerRegistration, ClusterState, OfflinePartitions
from cluster.model.errors import ErrorCode
from cluster.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from cluster.model.log_condition import LogCondition
from cluster.model.plan import Plan
from cluster.model.topics import NewTopic
from tests.support.cluster_states import a_broker, a_cluster, a_partition, a_topic

ORDERS_0 = TopicPartition("orders", 0)
EPOCH = a_broker(1).epoch


def a_controller(state: ClusterState) -> Controller:
    return Controller(
        ControllerEpoch(5),
        state,
        TopicRules(1, 1, lambda configs: None),
        Random(1),
        lambda configs: configs.get("unclean.leader.election.enable") == "true",
    )


def brokers(*numbers: int, again: tuple[int, ...] = ()) -> list[BrokerRegistration]:
    """Registrations; those in `again` are back with a new epoch."""
    return [a_broker(number, 200 if number in again else 100) for number in numbers]


def written(controller: Controller, zxid: int) -> dict[TopicPartition, BrokerEpoch]:
    """All partition states were written at this time; brokers registered at 100, returned ones at
    200."""
    return {partition: BrokerEpoch(zxid) for partition, _ in controller.state.partitions()}


def complete(plan: Plan) -> Plan:
    """The plan after all of its steps."""
    deque(plan.steps, maxlen=0)
    return plan


def leaders(plan: Plan) -> dict[str, int]:
    complete(plan)
    return {str(partition): state.leader for partition, state in plan.changed.items()}


# Offline replicas


def offline(broker: int, *numbers: int) -> list[OfflinePartitions]:
    topic_id = a_topic("orders").topic_id
    return [OfflinePartitions(BrokerId(broker), topic_id, numbers)]


def test_an_offline_replica_loses_its_leadership_and_leaves_the_isr():
    controller = a_controller(
        a_cluster(
            [1, 2],
            a_topic("orders", a_partition([1, 2]), a_partition([1, 2]), a_partition([2, 1])),
            a_topic("bills", a_partition([1, 2])),
        )
    )
    plan = controller.on_offline(BrokerId(1), offline(1, 0, 2))
    assert leaders(plan) == {"orders-0": 2, "orders-2": 2}
    assert [state.isr for state in plan.changed.values()] == [(2,), (2,)]
    plan.apply(controller.state)
    again = controller.on_offline(BrokerId(1), offline(1, 0, 2))
    assert leaders(again) == {}
    assert controller.state.offline == tuple(offline(1, 0, 2))


def test_the_last_in_sync_replica_stays_in_the_isr_when_it_goes_offline():
    controller = a_controller(a_cluster([1, 2], a_topic("orders", a_partition([1, 2], [1]))))
    plan = controller.on_offline(BrokerId(1), offline(1, 0))
    assert leaders(plan) == {"orders-0": NO_BROKER}
    assert plan.changed[ORDERS_0].isr == (1,)


def test_an_offline_replica_is_passed_over_when_another_broker_dies():
    controller = a_controller(a_cluster([1, 2, 3], a_topic("orders", a_partition([1, 2, 3]))))
    first = complete(controller.on_offline(BrokerId(2), offline(2, 0)))
    first.apply(controller.state)
    assert first.changed[ORDERS_0].isr == (1, 3)
    plan, _ = controller.on_brokers_changed(brokers(2, 3))
    assert leaders(plan) == {"orders-0": 3}


def test_an_offline_replica_does_not_rejoin_the_isr_or_take_over_at_a_controlled_shutdown():
    topic = a_topic("orders", a_partition([1, 2], [1]), a_partition([1, 2]), a_partition([1, 2]))
    controller = a_controller(a_cluster([1, 2], topic))
    complete(controller.on_offline(BrokerId(2), offline(2, 0, 1)))  # and still in the ISR of 1
    _, outcome = controller.on_isr_proposed(
        BrokerId(1), ORDERS_0, (BrokerId(1), BrokerId(2)), LeaderEpoch(0), PartitionEpoch(0), EPOCH
    )
    assert outcome.code is ErrorCode.ineligible_replica
    assert leaders(controller.on_controlled_shutdown(BrokerId(1))) == {"orders-2": 2}


def test_a_new_registration_has_no_offline_replicas_until_it_reports_them():
    controller = a_controller(a_cluster([1, 2], a_topic("orders", a_partition([1, 2], [1]))))
    first = complete(controller.on_offline(BrokerId(1), offline(1, 0)))
    first.apply(controller.state)
    plan, joined = controller.on_brokers_changed(brokers(1, 2, again=(1,)))
    assert joined == [1]
    assert controller.state.offline == ()
    assert leaders(plan) == {"orders-0": 1}


# Full log directories


def fill(controller: Controller, *replicas: OfflinePartitions, reason: str = "") -> None:
    for each in replicas:
        controller.on_full(each.broker, [each], reason)


def test_an_in_sync_replica_with_room_leads_instead_of_a_full_one_and_the_isr_stays():
    topic = a_topic("orders", a_partition([1, 2, 3]), a_partition([2, 1]), a_partition([1, 2], [1]))
    controller = a_controller(a_cluster([1, 2, 3], topic))
    assert leaders(controller.leave_full()) == {}
    fill(controller, *offline(1, 0, 1, 2))
    plan = controller.leave_full()
    assert leaders(plan) == {"orders-0": 2}
    state = plan.changed[ORDERS_0]
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1, 2, 3), 1, 1)
    plan.apply(controller.state)
    assert leaders(controller.leave_full()) == {}


def test_leaders_stay_while_every_in_sync_replica_is_full():
    controller = a_controller(a_cluster([1, 2, 3], a_topic("orders", a_partition([1, 2, 3]))))
    fill(controller, *offline(1, 0), *offline(2, 0), *offline(3, 0))
    assert leaders(controller.leave_full()) == {}
    controller.on_full(BrokerId(3), [], "")
    assert leaders(controller.leave_full()) == {"orders-0": 3}


def test_a_full_replica_is_elected_only_when_it_is_the_last():
    topic = a_topic("orders", a_partition([1, 2, 3]), a_partition([1, 2]))
    controller = a_controller(a_cluster([1, 2, 3], topic))
    fill(controller, *offline(2, 0, 1))
    plan, _ = controller.on_brokers_changed(brokers(2, 3))
    assert leaders(plan) == {"orders-0": 3, "orders-1": 2}
    assert plan.changed[ORDERS_0].isr == (2, 3)
    assert plan.changed[ORDERS_0].partition_epoch == 1  # one write, not two
    assert leaders(controller.on_controlled_shutdown(BrokerId(1))) == {
        "orders-0": 3,
        "orders-1": 2,
    }


def test_a_full_replica_does_not_join_the_isr_and_is_forgotten_with_its_registration():
    controller = a_controller(a_cluster([1, 2], a_topic("orders", a_partition([1, 2], [1]))))
    fill(controller, *offline(2, 0), reason="no room")

    def propose() -> ErrorCode:
        both = (BrokerId(1), BrokerId(2))
        epoch = controller.state.brokers[BrokerId(2)].epoch
        return controller.on_isr_proposed(
            BrokerId(1), ORDERS_0, both, LeaderEpoch(0), PartitionEpoch(0), epoch
        )[1].code

    assert propose() is ErrorCode.ineligible_replica
    controller.on_brokers_changed(brokers(1, 2, again=(2,)))
    assert not controller.state.full
    assert controller.state.full_brokers == {}
    assert propose() is ErrorCode.none


def test_new_topics_are_placed_on_brokers_with_room_or_refused():
    controller = a_controller(a_cluster([1, 2, 3]))
    controller.on_full(BrokerId(1), [], "log directory /one is full: 1 of 10 MiB are free")
    plan, _, _ = controller.create_topics([NewTopic("narrow", 6, 2), NewTopic("wide", 6, 3)])
    narrow, wide = plan.created
    assert {b for state in narrow.partitions.values() for b in state.replicas} == {2, 3}
    assert {state.leader for state in wide.partitions.values()} == {2, 3}
    for broker in (2, 3):
        controller.on_full(BrokerId(broker), [], "full as well")
    plan, outcomes, _ = controller.create_topics([NewTopic("none", 1, 1)])
    assert plan.is_empty
    assert outcomes["none"].code is ErrorCode.kafka_storage_error
    assert "there is no room for a new partition: broker " in str(outcomes["none"])


def test_unclean_elections_take_no_offline_replica():
    topic = a_topic(
        "orders",
        a_partition([1, 2, 3], [1]),
        configs={"unclean.leader.election.enable": "true"},
    )
    controller = a_controller(a_cluster([1, 2, 3], topic))
    complete(controller.on_offline(BrokerId(2), offline(2, 0)))
    assert leaders(controller.on_offline(BrokerId(1), offline(1, 0))) == {"orders-0": 3}


# Takeover


def test_takeover_keeps_live_leaders_and_replaces_dead_ones():
    controller = a_controller(
        a_cluster(
            [],
            a_topic(
                "orders",
                a_partition([1, 2], leader_epoch=3, partition_epoch=3),
                a_partition([2, 1], leader_epoch=3, partition_epoch=3),
                a_partition([3, 1], [3]),
            ),
        )
    )
    plan = controller.on_takeover(brokers(1, 3), written(controller, 150), {})
    assert leaders(plan) == {"orders-0": 1, "orders-1": 1}
    assert plan.changed[ORDERS_0].isr == (1,)
    assert plan.changed[ORDERS_0].leader_epoch == 3
    assert plan.changed[TopicPartition("orders", 1)].leader_epoch == 4
    assert set(controller.state.brokers) == {1, 3}


def test_takeover_replaces_a_leader_that_returned_unnoticed():
    """The controller and a leader died together, and the leader is back already."""
    state = a_cluster([], a_topic("orders", a_partition([1, 2, 3]), a_partition([1])))
    controller = a_controller(state)
    plan = controller.on_takeover(brokers(1, 2, 3, again=(1,)), written(controller, 150), {})
    assert leaders(plan) == {"orders-0": 2, "orders-1": 1}
    assert plan.changed[ORDERS_0].isr == (2, 3)
    alone = plan.changed[TopicPartition("orders", 1)]
    assert alone.leader_epoch > 0
    assert alone.partition_epoch == 1


@pytest.mark.parametrize(("recorded", "isr"), [({}, (2,)), ({1: 99}, (2,)), ({1: 120}, (1, 2))])
def test_takeover_respects_a_lost_disk_that_no_controller_noticed(
    recorded: dict[BrokerId, BrokerEpoch], isr: tuple[int, ...]
) -> None:
    """The former controller wrote the partition's state after the registration, and died."""
    controller = a_controller(a_cluster([], a_topic("orders", a_partition([1, 2]))))
    empty = LogCondition(frozenset(), is_directory_lost=True)
    registered = [replace(a_broker(1), condition=empty), a_broker(2)]
    plan = complete(controller.on_takeover(registered, written(controller, 150), recorded))
    plan.apply(controller.state)
    state = controller.state.partition(ORDERS_0)
    assert state is not None
    assert (state.leader, state.isr) == (isr[0], isr)


def test_takeover_gives_a_state_to_partitions_without_one():
    state = a_cluster([], a_topic("orders", a_partition([1, 2], leader=-1, partition_epoch=-1)))
    plan = a_controller(state).on_takeover(brokers(2), {}, {})
    assert leaders(plan) == {"orders-0": 2}
    assert plan.changed[ORDERS_0].isr == (2,)
    assert plan.changed[ORDERS_0].partition_epoch == 0


# Brokers


def test_a_broker_that_is_lost_loses_its_leaderships():
    controller = a_controller(a_cluster([1, 2, 3], a_topic("orders", a_partition([1, 2, 3]))))
    plan, joined = controller.on_brokers_changed(brokers(2, 3))
    assert leaders(plan) == {"orders-0": 2}
    assert plan.changed[ORDERS_0].isr == (2, 3)
    assert joined == []


def test_a_new_broker_leads_partitions_that_waited_for_it():
    state = a_cluster([2], a_topic("orders", a_partition([1, 2], [1], leader=-1)))
    controller = a_controller(state)
    plan, joined = controller.on_brokers_changed(brokers(1, 2))
    assert leaders(plan) == {"orders-0": 1}
    assert joined == [1]


def test_a_broker_that_restarted_between_two_reads_loses_its_leaderships():
    controller = a_controller(a_cluster([1, 2], a_topic("orders", a_partition([1, 2]))))
    plan, joined = controller.on_brokers_changed(brokers(1, 2, again=(1,)))
    assert leaders(plan) == {"orders-0": 2}
    assert plan.changed[ORDERS_0].isr == (2,)
    assert joined == [1]


def test_a_sole_replica_that_was_away_leads_again_in_a_new_epoch_by_one_write():
    state = a_cluster([1], a_topic("orders", a_partition([1], partition_epoch=7, leader_epoch=4)))
    plan, joined = a_controller(state).on_brokers_changed(brokers(1, again=(1,)))
    assert leaders(plan) == {"orders-0": 1}
    assert plan.changed[ORDERS_0].leader_epoch > 4
    assert plan.changed[ORDERS_0].partition_epoch == 8
    assert joined == [1]


def test_no_change_of_brokers_plans_nothing():
    controller = a_controller(a_cluster([1, 2], a_topic("orders", a_partition([1, 2]))))
    plan, joined = controller.on_brokers_changed(brokers(1, 2))
    assert plan.is_empty
    assert joined == []


def test_only_topics_that_allow_it_get_an_unclean_leader():
    unclean = {"unclean.leader.election.enable": "true"}
    state = a_cluster(
        [1, 2],
        a_topic("clean", a_partition([1, 2], [1])),
        a_topic("unclean", a_partition([1, 2], [1]), configs=unclean),
    )
    plan, _ = a_controller(state).on_brokers_changed(brokers(2))
    assert leaders(plan) == {"clean-0": NO_BROKER, "unclean-0": 2}


# Controlled shutdown


def test_controlled_shutdown_moves_leaderships_and_leaves_the_isr():
    state = a_cluster(
        [1, 2], a_topic("orders", a_partition([1, 2]), a_partition([2, 1]), a_partition([1]))
    )
    plan = a_controller(state).on_controlled_shutdown(BrokerId(1))
    assert leaders(plan) == {"orders-0": 2, "orders-1": 2}
    assert {state.isr for state in plan.changed.values()} == {(2,)}


def test_a_stopping_broker_gets_no_leadership_and_joins_no_isr():
    controller = a_controller(a_cluster([1, 2, 3], a_topic("orders", a_partition([1, 2, 3]))))
    complete(controller.on_controlled_shutdown(BrokerId(2))).apply(controller.state)
    plan = controller.on_controlled_shutdown(BrokerId(1))
    assert leaders(plan) == {"orders-0": 3}
    plan.apply(controller.state)
    state = controller.state.partition(ORDERS_0)

    def propose() -> ErrorCode:
        current = controller.state.partition(ORDERS_0)
        _, outcome = controller.on_isr_proposed(
            BrokerId(3),
            ORDERS_0,
            (BrokerId(3), BrokerId(1)),
            current.leader_epoch,
            current.partition_epoch,
            controller.state.brokers[BrokerId(1)].epoch,
        )
        return outcome.code

    assert state.isr == (3,)
    assert propose() is ErrorCode.ineligible_replica
    plan, _ = controller.on_brokers_changed(brokers(1, 2, 3, again=(1,)))
    complete(plan).apply(controller.state)
    assert propose() is ErrorCode.none


# In-sync replicas


@pytest.mark.parametrize(
    ("broker", "partition", "isr", "leader_epoch", "partition_epoch", "code"),
    [
        (1, "unknown", (1,), 2, 5, ErrorCode.unknown_topic_or_partition),
        (2, "orders", (1,), 2, 5, ErrorCode.fenced_leader_epoch),
        (1, "orders", (1,), 1, 5, ErrorCode.fenced_leader_epoch),
        (1, "orders", (1,), 3, 5, ErrorCode.not_controller),
        (1, "orders", (1,), 2, 4, ErrorCode.invalid_update_version),
        (1, "orders", (1,), 2, 6, ErrorCode.invalid_update_version),
        (1, "orders", (1, 3), 2, 5, ErrorCode.ineligible_replica),  # is not alive
        (1, "orders", (1, 4), 2, 5, ErrorCode.ineligible_replica),  # is not a replica
        (1, "orders", (2,), 2, 5, ErrorCode.ineligible_replica),  # does not include the leader
        (1, "orders", (1, 1), 2, 5, ErrorCode.ineligible_replica),
        (1, "orders", (), 2, 5, ErrorCode.ineligible_replica),
    ],
)
def test_a_proposal_with_an_old_epoch_is_fenced(
    broker, partition, isr, leader_epoch, partition_epoch, code
):
    state = a_cluster([1, 2, 4], a_topic("orders", a_partition([1, 2, 3], [1, 2], 1, 2, 5)))
    plan, outcome = a_controller(state).on_isr_proposed(
        BrokerId(broker),
        TopicPartition(partition, 0),
        tuple(map(BrokerId, isr)),
        LeaderEpoch(leader_epoch),
        PartitionEpoch(partition_epoch),
        EPOCH,
    )
    assert outcome.code is code
    assert plan.is_empty


@pytest.mark.parametrize("isr", [(1,), (1, 2, 3), (1, 2)])
def test_a_valid_proposal_is_planned(isr):
    state = a_cluster([1, 2, 3], a_topic("orders", a_partition([1, 2, 3], [1, 2], 1, 2, 5)))
    plan, outcome = a_controller(state).on_isr_proposed(
        BrokerId(1), ORDERS_0, tuple(map(BrokerId, isr)), LeaderEpoch(2), PartitionEpoch(5), EPOCH
    )
    assert outcome.code is ErrorCode.none
    assert plan.changed == {ORDERS_0: a_partition([1, 2, 3], isr, 1, 2, 6)}


def test_no_replica_joins_the_isr_by_an_earlier_registration():
    state = a_cluster([1], a_topic("orders", a_partition([1, 2], [1], 1, 2, 5)))
    state.brokers[BrokerId(2)] = a_broker(2, EPOCH + 1)
    controller = a_controller(state)
    both = (BrokerId(1), BrokerId(2))

    def propose(epoch: int) -> ErrorCode:
        proposal = both, LeaderEpoch(2), PartitionEpoch(5), BrokerEpoch(epoch)
        return controller.on_isr_proposed(BrokerId(1), ORDERS_0, *proposal)[1].code

    assert propose(EPOCH) is ErrorCode.ineligible_replica
    assert propose(-1) is ErrorCode.ineligible_replica
    assert propose(EPOCH + 1) is ErrorCode.none


def test_a_dead_member_may_stay_until_it_is_the_leader_s_turn_to_shrink():
    state = a_cluster([1], a_topic("orders", a_partition([1, 2, 3], [1, 2, 3], 1, 2, 5)))
    _, outcome = a_controller(state).on_isr_proposed(
        BrokerId(1), ORDERS_0, (BrokerId(1), BrokerId(2)), LeaderEpoch(2), PartitionEpoch(5), EPOCH
    )
    assert outcome.code is ErrorCode.none


# Topics


def test_created_topics_are_in_the_state_once_the_plan_is_applied():
    controller = a_controller(a_cluster([1]))
    plan, outcomes, planned = controller.create_topics([NewTopic("t")])
    assert controller.state.topics == {}
    plan.apply(controller.state)
    assert outcomes["t"].code is ErrorCode.none
    assert controller.state.topics == planned
    assert controller.state.topic_name(planned["t"].topic_id) == "t"


def test_topics_are_deleted_by_name_or_id_and_each_once():
    orders, bills = a_topic("orders", a_partition([1])), a_topic("bills", a_partition([1]))
    controller = a_controller(a_cluster([1], orders, bills))
    stranger = uuid.uuid4()
    plan, outcomes = controller.delete_topics(
        [
            ("orders", None),
            (None, bills.topic_id),
            ("orders", None),
            ("unknown", None),
            (None, stranger),
            (None, None),
        ]
    )
    assert plan.deleted == ["orders", "bills"]
    assert [(name, topic_id, outcome.code.name) for name, topic_id, outcome in outcomes] == [
        ("orders", orders.topic_id, "none"),
        ("bills", bills.topic_id, "none"),
        ("orders", None, "invalid_request"),
        ("unknown", None, "unknown_topic_or_partition"),
        (None, stranger, "unknown_topic_id"),
        (None, None, "unknown_topic_id"),
    ]
    plan.apply(controller.state)
    assert controller.state.topics == {}


def test_topics_are_enlarged_each_with_its_own_outcome():
    controller = a_controller(
        a_cluster([1, 2], a_topic("orders", a_partition([1])), a_topic("bills", a_partition([2])))
    )
    plan, outcomes = controller.create_partitions([("orders", 3, None), ("unknown", 3, None)])
    assert [str(partition) for partition in plan.added] == ["orders-1", "orders-2"]
    assert outcomes["orders"].code is ErrorCode.none
    assert outcomes["unknown"].code is ErrorCode.unknown_topic_or_partition
    plan.apply(controller.state)
    assert len(controller.state.topics["orders"].partitions) == 3
    assert [t.name for t in plan.touched_topics(controller.state)] == ["orders"]


def test_a_topic_named_twice_is_not_enlarged():
    controller = a_controller(a_cluster([1], a_topic("orders", a_partition([1]))))
    plan, outcomes = controller.create_partitions([("orders", 3, None), ("orders", 4, None)])
    assert outcomes["orders"].code is ErrorCode.invalid_request
    assert plan.is_empty


def test_an_applied_plan_announces_only_changes():
    controller = a_controller(
        a_cluster([1, 2], a_topic("orders", a_partition([1, 2]), a_partition([2])))
    )
    plan, _ = controller.on_brokers_changed(brokers(2))
    complete(plan).apply(controller.state)
    (touched,) = plan.touched_topics(controller.state)
    assert list(touched.partitions) == [0]
    assert len(controller.state.topics["orders"].partitions) == 2
