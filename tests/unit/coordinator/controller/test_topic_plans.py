"""Creating and enlarging topics: every refusal with its code, and the plans."""

import uuid
from random import Random

import pytest

from cluster.coordinator.controller.topic_plans import (
    PARTITIONS_PER_REQUEST_MAX,
    TopicRules,
    plan_create_topics,
    plan_more_partitions,
)
from cluster.model.cluster import ClusterState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.topics import NewTopic, check_topic_name
from tests.support.cluster_states import a_cluster, a_partition, a_topic


def check_configs(configs: object) -> None:
    if configs == {"bad": "1"}:
        raise Refused(ErrorCode.invalid_config, "bad is not a setting")


RULES = TopicRules(4, 2, check_configs)


def ids() -> uuid.UUID:
    return uuid.uuid4()


def plan(state: ClusterState, *topics: NewTopic):
    return plan_create_topics(state, topics, RULES, Random(3), ids)


def assignment(*replica_lists: list[int]) -> dict[int, tuple[BrokerId, ...]]:
    return {number: tuple(map(BrokerId, one)) for number, one in enumerate(replica_lists)}


@pytest.fixture
def state() -> ClusterState:
    return a_cluster(
        [1, 2, 3], a_topic("existing", a_partition([1, 2])), a_topic("with.dot", a_partition([1]))
    )


@pytest.mark.parametrize("name", ["a", "A-Za.z_0-9", "...", "x" * 249])
def test_legal_names_are_accepted(name):
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "a\0", "ä", "a\n", "a:b", "a,b"]
)
def test_illegal_names_are_refused(name):
    with pytest.raises(Refused) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.invalid_topic_exception
    assert refused.value.detail.startswith("Topic name is invalid: ")


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("no good"), ErrorCode.invalid_topic_exception),
        (NewTopic("existing"), ErrorCode.topic_already_exists),
        (NewTopic("with_dot"), ErrorCode.invalid_topic_exception),
        (NewTopic("t", configs={"bad": "1"}), ErrorCode.invalid_config),
        (NewTopic("t", 0, 1), ErrorCode.invalid_partitions),
        (NewTopic("t", -2, 1), ErrorCode.invalid_partitions),
        (NewTopic("t", 1, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, -2), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, 4), ErrorCode.invalid_replication_factor),
        (NewTopic("t", PARTITIONS_PER_REQUEST_MAX + 1, 1), ErrorCode.policy_violation),
        (NewTopic("t", 2**31 - 1, 1), ErrorCode.policy_violation),
        (NewTopic("t", 1, -1, assignment([1])), ErrorCode.invalid_request),
        (NewTopic("t", -1, 1, assignment([1])), ErrorCode.invalid_request),
        (NewTopic("t", assignment={1: (BrokerId(1),)}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment=assignment([1], [1, 2])), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment=assignment([])), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment=assignment([1, 1])), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment=assignment([1, 9])), ErrorCode.invalid_replica_assignment),
    ],
)
def test_impossible_topics_are_refused(state, new, code):
    made, outcomes, planned = plan(state, new, NewTopic("good"))
    assert outcomes[new.name].code is code
    assert outcomes[new.name].detail
    assert outcomes["good"].code is ErrorCode.none
    assert [topic.name for topic in made.created] == ["good"] == list(planned)


def test_minus_one_means_the_default(state):
    made, _, planned = plan(state, NewTopic("t", configs={"retention.ms": "5"}))
    (topic,) = made.created
    assert planned == {"t": topic}
    assert len(topic.partitions) == 4
    assert topic.configs == {"retention.ms": "5"}
    for partition in topic.partitions.values():
        assert len(partition.replicas) == 2
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_an_assignment_of_the_client_is_used_unchanged(state):
    made, _, _ = plan(state, NewTopic("t", assignment=assignment([3, 1], [2, 3])))
    assert [p.replicas for p in made.created[0].partitions.values()] == [(3, 1), (2, 3)]


def test_a_name_twice_in_one_request_is_refused_both_times(state):
    made, outcomes, _ = plan(state, NewTopic("t", 1, 1), NewTopic("t", 2, 1), NewTopic("u"))
    assert outcomes["t"].code is ErrorCode.invalid_request
    assert [topic.name for topic in made.created] == ["u"]


def test_names_that_collide_in_one_request_are_not_both_created(state):
    made, outcomes, _ = plan(state, NewTopic("a.b"), NewTopic("a_b"))
    assert [topic.name for topic in made.created] == ["a.b"]
    assert outcomes["a_b"].code is ErrorCode.invalid_topic_exception
    assert "collides with existing topics: a.b" in outcomes["a_b"].detail


def test_the_partitions_of_one_request_are_bounded_together(state):
    share = PARTITIONS_PER_REQUEST_MAX // 2
    _, outcomes, _ = plan(state, NewTopic("a", share, 1), NewTopic("b", share, 1), NewTopic("c"))
    assert [outcomes[name].code.name for name in "abc"] == ["none", "none", "policy_violation"]


def test_each_topic_has_its_own_id(state):
    made, _, _ = plan(state, NewTopic("a"), NewTopic("b"))
    assert made.created[0].topic_id != made.created[1].topic_id


# More partitions


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("unknown", 3, None, ErrorCode.unknown_topic_or_partition),
        ("existing", 1, None, ErrorCode.invalid_partitions),
        ("existing", 0, None, ErrorCode.invalid_partitions),
        ("existing", PARTITIONS_PER_REQUEST_MAX + 2, None, ErrorCode.policy_violation),
        ("existing", 3, [[1, 2]], ErrorCode.invalid_replica_assignment),
        ("existing", 2, [[1]], ErrorCode.invalid_replica_assignment),
        ("existing", 2, [[1, 1]], ErrorCode.invalid_replica_assignment),
        ("existing", 2, [[1, 9]], ErrorCode.invalid_replica_assignment),
    ],
)
def test_impossible_partitions_are_refused(state, name, count, assignments, code):
    given = None if assignments is None else [tuple(map(BrokerId, one)) for one in assignments]
    with pytest.raises(Refused) as refused:
        plan_more_partitions(state, name, count, given, Random(1))
    assert refused.value.code is code
    assert refused.value.detail


def test_added_partitions_keep_the_replication_factor_and_the_rotation(state):
    added = plan_more_partitions(state, "existing", 4, None, Random(1))
    assert list(added) == [TopicPartition("existing", number) for number in (1, 2, 3)]
    assert [one.leader for one in added.values()] == [2, 3, 1]
    assert all(len(one.replicas) == 2 for one in added.values())


def test_added_partitions_are_placed_also_when_the_first_broker_is_away(state):
    del state.brokers[BrokerId(1)]
    added = plan_more_partitions(state, "existing", 2, None, Random(1))
    assert set(added[TopicPartition("existing", 1)].replicas) == {2, 3}


def test_added_partitions_may_be_placed_by_the_client(state):
    given = [tuple(map(BrokerId, (3, 2)))]
    added = plan_more_partitions(state, "existing", 2, given, Random(1))
    assert added[TopicPartition("existing", 1)].replicas == (3, 2)


@pytest.mark.parametrize("numbers", [[], [1], [0, 2]])
def test_a_topic_with_gaps_is_not_enlarged(state, numbers):
    """Another tool has created it like that."""
    topic = a_topic("odd")
    topic.partitions.update({number: a_partition([1]) for number in numbers})
    state.put_topic(topic)
    with pytest.raises(Refused, match="Unexpected existing replica assignment"):
        plan_more_partitions(state, "odd", 5, None, Random(1))


def test_a_topic_without_replicas_is_not_enlarged(state):
    state.put_topic(a_topic("odd", a_partition([], leader=-1)))
    with pytest.raises(Refused, match="partition 0 has none"):
        plan_more_partitions(state, "odd", 5, None, Random(1))
