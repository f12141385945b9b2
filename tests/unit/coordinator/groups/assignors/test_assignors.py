"""The guarantees of both assignors, and those of each."""

import uuid
from collections import Counter
from collections.abc import Mapping
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.groups.assignors import ASSIGNORS
from cluster.coordinator.groups.assignors.range import assign_range
from cluster.coordinator.groups.assignors.subscription import MemberSubscription
from cluster.coordinator.groups.assignors.uniform import assign_uniform

TOPICS = [uuid.UUID(int=number) for number in range(1, 7)]
A, B, C = TOPICS[:3]
MISSING = uuid.UUID(int=99)

Members = dict[str, MemberSubscription]
Assigned = Mapping[str, Mapping[uuid.UUID, frozenset[int]]]


def subscriber(*topics, assigned=None, instance=None):
    return MemberSubscription(instance, None, frozenset(topics), assigned or {})


def parts(*numbers):
    return frozenset(numbers)


def pairs(assigned) -> set[tuple[uuid.UUID, int]]:
    return {(topic, number) for topic, numbers in assigned.items() for number in numbers}


def sizes(assigned: Assigned) -> dict[str, int]:
    return {member_id: len(pairs(each)) for member_id, each in assigned.items()}


def having(members: Members, assigned: Assigned) -> Members:
    return {each: members[each]._replace(assigned=assigned[each]) for each in members}


def moved(members: Members, assigned: Assigned) -> int:
    """Partitions that moved from one member to another."""
    had = set(chain.from_iterable(pairs(each.assigned) for each in members.values()))
    return sum(
        len((pairs(assigned[member_id]) & had) - pairs(member.assigned))
        for member_id, member in members.items()
    )


def check(members: Members, topics: Mapping[uuid.UUID, int], assigned: Assigned) -> None:
    """Each partition of a subscribed topic has one owner, which subscribes to it."""
    assert assigned.keys() == members.keys()
    owners = Counter(pair for each in assigned.values() for pair in pairs(each))
    wanted = {topic for member in members.values() for topic in member.topics}
    assert owners == Counter(
        {(topic, number): 1 for topic in wanted for number in range(topics.get(topic, 0))}
    )
    for member_id, each in assigned.items():
        assert each.keys() <= members[member_id].topics
        assert all(each.values())


# ---------------------------------------------------------------------- what may come

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
subscriptions = st.frozensets(st.sampled_from([*TOPICS, MISSING]))


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[Members, dict[uuid.UUID, int]]:
    """Members with any subscriptions and any former partitions."""
    topics = draw(counts)
    ids = draw(st.lists(st.sampled_from("abcdefghij"), min_size=1, unique=True))
    had: dict[str, dict[uuid.UUID, set[int]]] = {member_id: {} for member_id in ids}
    for topic in draw(st.lists(st.sampled_from(TOPICS), unique=True)):
        for number in range(draw(st.integers(0, 9))):
            owner = draw(st.sampled_from([*ids, None]))
            if owner is not None:
                had[owner].setdefault(topic, set()).add(number)
    common = draw(subscriptions)
    members = {
        member_id: MemberSubscription(
            draw(st.none() | st.just(f"i-{member_id}")),
            None,
            common if alike else draw(subscriptions),
            {topic: frozenset(numbers) for topic, numbers in had[member_id].items()},
        )
        for member_id in ids
    }
    return members, topics


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups(), order=st.randoms())
def test_each_partition_has_one_owner_who_subscribes_to_it(name, group, order):
    members, topics = group
    assigned = ASSIGNORS[name](members, topics)
    check(members, topics, assigned)
    shuffled = list(members.items())
    order.shuffle(shuffled)
    assert ASSIGNORS[name](dict(shuffled), topics) == assigned


@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_partitions_are_assigned_without_members_or_topics(name):
    assign = ASSIGNORS[name]
    assert assign({}, {A: 3}) == {}
    assert assign({"a": subscriber(), "b": subscriber()}, {A: 3}) == {"a": {}, "b": {}}
    assert assign({"a": subscriber(MISSING), "b": subscriber(A)}, {A: 0}) == {"a": {}, "b": {}}


# ---------------------------------------------------------------------- uniform, all alike


@given(group=groups(alike=True))
def test_equal_members_get_equal_shares_with_the_fewest_moves(group):
    members, topics = group
    assigned = assign_uniform(members, topics)
    check(members, topics, assigned)
    size, left_over = divmod(sum(sizes(assigned).values()), len(members))
    with_least = [size] * (len(members) - left_over)
    assert sorted(sizes(assigned).values()) == with_least + [size + 1] * left_over
    have = [
        sum(
            topic in member.topics and number < topics.get(topic, 0)
            for topic, number in pairs(member.assigned)
        )
        for member in members.values()
    ]
    too_many = [max(0, each - size) for each in have]
    keep_one_more = min(left_over, sum(each > 0 for each in too_many))
    assert moved(members, assigned) == sum(too_many) - keep_one_more


@given(group=groups())
def test_a_repeated_assignment_changes_nothing(group):
    members, topics = group
    first = assign_uniform(members, topics)
    second = assign_uniform(having(members, first), topics)
    assert second == first
    for member_id, topic_partitions in second.items():
        for topic, numbers in topic_partitions.items():
            assert numbers is first[member_id][topic]


def test_a_member_that_joins_takes_its_share_only():
    members = {
        "a": subscriber(A, assigned={A: parts(0, 1, 2, 3, 4)}),
        "b": subscriber(A, assigned={A: parts(5, 6, 7, 8, 9)}),
        "c": subscriber(A),
    }
    assert assign_uniform(members, {A: 10}) == {
        "a": {A: parts(0, 1, 2, 3)},
        "b": {A: parts(5, 6, 7)},
        "c": {A: parts(4, 8, 9)},
    }


def test_a_member_keeps_its_extra_partition():
    members = {
        "a": subscriber(A, assigned={A: parts(0, 1)}),
        "b": subscriber(A, assigned={A: parts(2, 3)}),
        "c": subscriber(A, assigned={A: parts(4, 5, 6)}),
    }
    before = {member_id: each.assigned for member_id, each in members.items()}
    assert assign_uniform(members, {A: 7}) == before


def test_a_changed_subscription_releases_old_and_shares_new_partitions():
    members = {
        "a": subscriber(A, C, assigned={A: parts(0, 1), B: parts(0)}),
        "b": subscriber(A, C, assigned={A: parts(2), B: parts(1)}),
    }
    assigned = assign_uniform(members, {A: 4, B: 2, C: 2})
    assert parts(0, 1) <= assigned["a"][A]
    assert parts(2) <= assigned["b"][A]
    assert sizes(assigned) == {"a": 3, "b": 3}


def test_a_partition_with_two_former_owners_goes_to_one():
    members = {
        "a": subscriber(A, assigned={A: parts(0, 1)}),
        "b": subscriber(A, B, assigned={A: parts(0, 1)}),
    }
    check(members, {A: 2}, assign_uniform(members, {A: 2}))
    alike = {**members, "b": members["a"]}
    assert assign_uniform(alike, {A: 2}) == {"a": {A: parts(0)}, "b": {A: parts(1)}}


# ---------------------------------------------------------------------- uniform, not alike


@given(group=groups())
def test_no_move_within_a_topic_makes_it_more_even(group):
    members, topics = group
    assigned = assign_uniform(members, topics)
    have = sizes(assigned)
    for topic in topics:
        subscribed = [each for each, member in members.items() if topic in member.topics]
        owners = [each for each in subscribed if topic in assigned[each]]
        if owners:
            most, least = max(have[each] for each in owners), min(have[each] for each in subscribed)
            assert most - least <= 1, topic


def test_subscribers_of_two_topics_get_what_others_cannot_have():
    members = {"a": subscriber(A), "b": subscriber(A, B), "c": subscriber(B)}
    assigned = assign_uniform(members, {A: 6, B: 6})
    assert sizes(assigned) == {"a": 4, "b": 4, "c": 4}


def test_a_new_subscription_moves_as_few_partitions_as_possible():
    members = {
        "a": subscriber(A, B, assigned={A: parts(0, 1, 2, 3)}),
        "b": subscriber(A, assigned={A: parts(4, 5)}),
        "c": subscriber(B),
    }
    assigned = assign_uniform(members, {A: 6, B: 3})
    assert sizes(assigned) == {"a": 3, "b": 3, "c": 3}
    assert moved(members, assigned) == 1


# ---------------------------------------------------------------------- range


@given(group=groups())
def test_ranges_follow_the_order_of_instances_and_members(group):
    members, topics = group
    assigned = assign_range(members, topics)
    order = sorted(
        members,
        key=lambda each: (members[each].instance_id is None, members[each].instance_id or each),
    )
    for topic, count in topics.items():
        runs = [
            sorted(assigned[each].get(topic, ())) for each in order if topic in members[each].topics
        ]
        if runs:
            assert list(chain.from_iterable(runs)) == list(range(count))
            lengths = [len(each) for each in runs]
            assert lengths == sorted(lengths, reverse=True)
            assert lengths[0] - lengths[-1] <= 1


def test_topics_of_one_size_are_divided_alike():
    members = {"a": subscriber(A, B), "b": subscriber(A, B), "c": subscriber(A, B, C)}
    assigned = assign_range(members, {A: 7, B: 7, C: 2})
    assert {member_id: each[A] for member_id, each in assigned.items()} == {
        "a": parts(0, 1, 2),
        "b": parts(3, 4),
        "c": parts(5, 6),
    }
    assert all(each[A] == each[B] for each in assigned.values())
    assert assigned["c"][C] == parts(0, 1)


def test_a_static_member_keeps_its_range_under_another_member_id():
    before = {"m": None, "x": "i-2", "y": "i-1"}
    after = {"m": None, "a": "i-2", "y": "i-1"}
    first, second = (
        assign_range({each: subscriber(A, instance=ids[each]) for each in ids}, {A: 3})
        for ids in (before, after)
    )
    assert first == {"y": {A: parts(0)}, "x": {A: parts(1)}, "m": {A: parts(2)}}
    assert second == {"y": {A: parts(0)}, "a": {A: parts(1)}, "m": {A: parts(2)}}


def test_members_beyond_the_number_of_partitions_get_none():
    assigned = assign_range({each: subscriber(A) for each in "abc"}, {A: 2})
    assert assigned == {"a": {A: parts(0)}, "b": {A: parts(1)}, "c": {}}
