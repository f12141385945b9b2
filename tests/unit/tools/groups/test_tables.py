"""Tables as kafka-consumer-groups prints them."""

import pytest

from cluster.client.topic_requests import Place
from cluster.model.error_codes import ErrorCode
from cluster.tools.arguments import UsageError
from cluster.tools.groups import tables
from cluster.tools.groups.delete_offsets import chosen
from cluster.views.groups.described_groups import Group, Member

ORDERS = [Place("orders", number) for number in range(3)]
HOLDER = Member("m-1", None, "app", "/127.0.0.1", (ORDERS[0], ORDERS[2]))
IDLE = Member("m-2", "spare", "app", "/127.0.0.1", ())


def a_group(*members: Member) -> Group:
    return Group("billing", "Stable", "range", "127.0.0.1:9092  (0)", members)


def test_a_line_for_each_partition_that_is_committed_or_assigned():
    text = tables.offsets_table(
        a_group(HOLDER), {ORDERS[0]: 5, ORDERS[1]: 7}, {ORDERS[0]: 9, ORDERS[2]: 4}
    )
    assert text.splitlines() == [
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG            "
        " CONSUMER-ID     HOST            CLIENT-ID",
        "billing         orders          0          5               9               4              "
        " m-1             /127.0.0.1      app",
        "billing         orders          1          7               -               -              "
        " -               -               -",
        "billing         orders          2          -               4               -              "
        " m-1             /127.0.0.1      app",
    ]


def test_members_with_what_they_have():
    heading, first, second = tables.members_table(
        a_group(IDLE, HOLDER), is_verbose=True
    ).splitlines()
    assert heading.split() == [
        *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"),
        "ASSIGNMENT",
    ]
    assert first.split() == ["billing", "m-1", "/127.0.0.1", "app", "2", "orders(0,2)"]
    assert second.split() == ["billing", "m-2", "spare", "/127.0.0.1", "app", "0", "-"]
    brief = tables.members_table(a_group(HOLDER), is_verbose=False)
    assert "INSTANCE" not in brief
    assert "ASSIGNMENT" not in brief


def test_the_state_of_a_group():
    assert tables.state_table(a_group(HOLDER), is_verbose=False).splitlines() == [
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS",
        "billing         127.0.0.1:9092  (0)       range                Stable          1",
    ]


NEWER_HOLDER = HOLDER._replace(epoch=7, target=(ORDERS[0],), is_classic=False)
NEWER_IDLE = IDLE._replace(epoch=6, target=(ORDERS[1], ORDERS[2]))


def a_newer_group(*members: Member) -> Group:
    return Group("billing", "Reconciling", "uniform", "localhost:9092  (0)", members, 8, 7)


def test_a_group_of_the_newer_protocol_has_epochs_and_a_target():
    text = tables.members_table(a_newer_group(NEWER_HOLDER), is_verbose=True)
    assert text.splitlines() == [
        "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
        "CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT",
        "billing         m-1             /127.0.0.1      app             2               "
        "7               orders:0,2           7               orders:0",
    ]
    state = tables.state_table(a_newer_group(NEWER_HOLDER), is_verbose=True)
    assert [line.split()[-4:] for line in state.splitlines()] == [
        ["STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"],
        ["Reconciling", "8", "7", "1"],
    ]


def test_members_of_both_protocols_are_told_apart():
    text = tables.members_table(a_newer_group(NEWER_HOLDER, NEWER_IDLE), is_verbose=True)
    heading, first, second = (line.split() for line in text.splitlines())
    assert heading[-5:] == [
        *("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED")
    ]
    assert first[-5:] == ["7", "orders:0,2", "7", "orders:0", "true"]
    assert second[-5:] == ["6", "-", "7", "orders:1,2", "false"]


def test_names_alone_or_with_types_and_states():
    types, states = {"b": "Classic", "a": "Consumer"}, {"b": "Stable", "a": "Empty"}
    assert tables.listed(states, None, None) == "a\nb\n"
    assert tables.listed(["b"], None, states).splitlines() == [
        "GROUP                     STATE",
        "b                         Stable",
    ]
    assert tables.listed(states, types, states).splitlines() == [
        "GROUP                     TYPE                 STATE",
        "a                         Consumer             Empty",
        "b                         Classic              Stable",
    ]
    assert tables.listed([], None, states).split() == ["GROUP", "STATE"]


def test_leader_epochs_of_offsets():
    text = tables.offsets_table(a_group(), {ORDERS[0]: 5, ORDERS[1]: 7}, {}, {ORDERS[0]: 3})
    assert [line.split()[2:5] for line in text.splitlines()] == [
        ["PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET"],
        ["0", "3", "5"],
        ["1", "-", "7"],
    ]


def test_deleted_offsets_table_shows_each_outcome():
    outcomes = {
        ("orders", 1): ErrorCode.none,
        ("orders", 0): ErrorCode.group_subscribed_to_topic,
        ("gone", None): ErrorCode.unknown_topic_or_partition,
    }
    assert tables.deleted_offsets_table(outcomes).splitlines() == [
        "TOPIC                          PARTITION       STATUS",
        "gone                           Not Provided    Error: UNKNOWN_TOPIC_OR_PARTITION",
        "orders                         0               Error: GROUP_SUBSCRIBED_TO_TOPIC",
        "orders                         1               Successful",
    ]


def test_the_partitions_whose_offsets_are_to_be_deleted():
    counts = {"orders": 3, "audit": 1}
    assert chosen(["orders:0,7", "audit", "orders:0"], counts) == (
        {"orders": [0, 7], "audit": [0]},
        {},
    )
    assert chosen(["none", "none:1"], counts) == (
        {"none": [1]},
        {("none", None): ErrorCode.unknown_topic_or_partition},
    )
    with pytest.raises(UsageError, match="it must be TOPIC or TOPIC:0,1,2"):
        chosen(["orders:x"], counts)


def test_new_offsets():
    text = tables.reset_table("billing", {ORDERS[1]: 7})
    assert [line.split() for line in text.splitlines()] == [
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        ["billing", "orders", "1", "7"],
    ]


def test_foreign_names_do_not_reach_the_terminal_unescaped():
    assert "\x1b" not in tables.listed(["a\x1b[31m\n"], None, None)
    member = Member("m\n", None, "\x1b]", "h", ())
    assert "\x1b" not in tables.members_table(a_group(member), is_verbose=True)
