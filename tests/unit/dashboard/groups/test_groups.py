"""Groups as the page gets them: rows, one group, rates of commits, resets."""

import argparse
import shlex
from typing import Any

import pytest

from cluster.client.topic_requests import Place
from cluster.dashboard.groups.commit_rates import CommitRates
from cluster.dashboard.groups.group_view import (
    GROUPS_MAX,
    MEMBERS_MAX,
    PARTITIONS_MAX,
    PartitionState,
    group_rows,
    group_view,
    last_known,
)
from cluster.dashboard.groups.resetting import (
    TARGETS,
    check_resettable,
    reset_command,
    reset_of,
    reset_view,
    why_not,
)
from cluster.dashboard.groups.source import Reset
from cluster.dashboard.http_requests import BadRequest
from cluster.dashboard.sampling.group_past import GroupTrend
from cluster.model.errors import UserError
from cluster.tools.command_parser import CommandParser
from cluster.tools.groups import reset as tool_reset
from cluster.tools.groups.command import add_parser
from cluster.views.group_lags import GroupLags
from cluster.views.groups.described_groups import Group, Member
from cluster.views.groups.new_offsets import NewOffsets, Target

A, B = Place("orders", 0), Place("orders", 1)


def lags(name: str = "g", **fields: Any) -> GroupLags:
    head = {"group": name, "type": "classic", "protocol_type": "consumer", "state": "Stable"}
    numbers = {"members": 1, "partitions": 2, "partitions_unknown": 0, "lag": 7, "lag_max": 5}
    return GroupLags({**head, **numbers, "ts": 9, "state_ms": {}, **fields})


def member(client: str, *places: Place) -> Member:
    return Member(f"{client}-1234", None, client, "/10.0.0.1", places)


def group(*members: Member, state: str = "Stable") -> Group:
    return Group("billing", state, "range", "127.0.0.1:9092  (0)", members, coordinator_id=0)


def test_rows_have_lag_and_trend_and_tell_milenas_own_groups() -> None:
    found = group_rows(
        [lags("billing"), lags("milena-load-test")], {"billing": GroupTrend(-2.0, 300, 60_000)}
    )
    first, second = found["groups"]
    assert (first["lag"], first["lag_max"], first["lag_per_s"]) == (7, 5, -2.0)
    assert (first["rebalanced_ms"], first["watched_ms"]) == (300, 60_000)
    assert (first["is_own"], second["is_own"]) == (False, True)
    assert (second["lag_per_s"], second["watched_ms"]) == (None, 0)


def test_rows_are_bounded() -> None:
    found = group_rows([lags(f"g{number}") for number in range(GROUPS_MAX + 3)], {})
    assert (len(found["groups"]), found["left_out"]) == (GROUPS_MAX, 3)


def test_a_group_is_shown_with_members_and_partitions() -> None:
    found = group_view(
        group(member("b", A), member("a")),
        {
            B: PartitionState(3, 2, None),
            A: PartitionState(4, 10, 1.5),
            Place("gone", 0): PartitionState(1, None, None, exists=False),
        },
        {"b": "librdkafka 2"},
        5,
    )
    assert [each["client_id"] for each in found["members"]] == ["a", "b"]
    assert [each["software"] for each in found["members"]] == ["", "librdkafka 2"]
    assert found["members"][1]["assignment"] == {"orders": [0]}
    assert found["members"][1]["host"] == "10.0.0.1"
    rows = [
        (each["topic"], each["partition"], each["lag"], each["member"], each["exists"])
        for each in found["partitions"]
    ]
    assert rows == [
        ("gone", 0, None, None, False),
        ("orders", 0, 6, "b", True),
        ("orders", 1, 0, None, True),
    ]
    assert (found["lag"], found["per_s"], found["topics"]) == (6, 1.5, ["gone", "orders"])
    assert found["coordinator"] == 0


def test_the_lag_of_a_group_without_committed_offsets_is_not_known() -> None:
    found = group_view(group(member("b", A)), {A: PartitionState(None, 10, None)}, {}, 5)
    assert found["lag"] is None


def test_partitions_with_the_largest_lag_are_shown_if_there_are_many() -> None:
    count = PARTITIONS_MAX + 10
    states = {Place("t", number): PartitionState(0, number, None) for number in range(count)}
    many = [member(f"c{number}") for number in range(MEMBERS_MAX + 2)]
    found = group_view(group(*many), states, {}, 0)
    assert [each["partition"] for each in found["partitions"]] == list(range(10, count))
    assert (found["partitions_left_out"], found["members_left_out"]) == (10, 2)
    assert found["member_count"] == len(many)
    assert found["lag"] == sum(range(count))


def test_a_group_without_coordinator_is_shown_as_the_stats_files_know_it() -> None:
    known = lags("billing", members=3)
    known.partitions.append(
        {"topic": "orders", "partition": 0, "committed": 4, "log_end": 9, "lag": 5}
    )
    found = last_known(known, "broker 1 does not answer")
    assert found["problem"] == "broker 1 does not answer"
    assert (found["member_count"], found["members"]) == (3, [])
    assert found["partitions"][0]["lag"] == 5
    assert (found["lag"], found["partitions_left_out"]) == (7, 1)
    assert found["coordinator"] is None


# ---------------------------------------------------------------------------- rates


def test_rates_are_those_of_the_last_half_minute() -> None:
    rates = CommitRates()
    assert rates.rates("g", 0, {A: 100}) == {}
    assert rates.rates("g", 4_000, {A: 120}) == {}  # too soon
    assert rates.rates("g", 10_000, {A: 200, B: 5}) == {A: 10.0}
    assert rates.rates("g", 35_000, {A: 200, B: 30}) == {A: 0.0, B: 1.0}
    assert rates.rates("other", 35_000, {A: 1}) == {}


def test_a_rate_is_unknown_after_an_offset_was_set_back() -> None:
    rates = CommitRates()
    rates.rates("g", 0, {A: 9_000, B: 0})
    assert rates.rates("g", 10_000, {A: 0, B: 100}) == {B: 10.0}
    assert rates.rates("g", 20_000, {A: 50, B: 200}) == {A: 5.0, B: 10.0}


def test_readings_of_groups_that_are_not_shown_any_more_are_dropped() -> None:
    rates = CommitRates()
    rates.rates("first", 0, {A: 0})
    for number in range(20):
        rates.rates(f"g{number}", 0, {A: 0})
    assert rates.rates("g19", 10_000, {A: 10}) == {A: 1.0}
    assert rates.rates("g19", -5_000, {A: 20}) == {}  # the clock was set back
    assert rates.rates("first", 10_000, {A: 10}) == {}


# ---------------------------------------------------------------------------- resets


@pytest.mark.parametrize(
    ("given", "reset"),
    [
        ({"target": "to-earliest"}, Reset("g", Target.EARLIEST)),
        ({"target": "to-latest", "topic": "t"}, Reset("g", Target.LATEST, 0, "t")),
        ({"target": "to-offset", "amount": "12"}, Reset("g", Target.OFFSET, 12)),
        ({"target": "to-offset", "amount": 2**62}, Reset("g", Target.OFFSET, 2**62)),
        ({"target": "shift-by", "amount": " -5"}, Reset("g", Target.SHIFT, -5)),
        ({"target": "to-datetime", "amount": "1500"}, Reset("g", Target.TIME, 1_500)),
    ],
)
def test_a_reset_is_read_from_a_request(given: dict[str, Any], reset: Reset) -> None:
    assert reset_of({"group": "g", **given}) == reset


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"target": "to-earliest", "group": None}, "are names"),
        ({"target": "to-earliest", "topic": 5}, "are names"),
        ({"target": "to-current"}, "a target is one of to-earliest, to-latest"),
        ({"target": "to-offset"}, "None is not a number"),
        ({"target": "to-offset", "amount": "x"}, "x is not a number"),
        ({"target": "to-offset", "amount": 1.5}, "1.5 is not a whole number"),
        ({"target": "to-offset", "amount": "-1"}, "-1 is not from 0"),
        ({"target": "shift-by", "amount": str(2**63)}, "is not from"),
        ({"target": "to-datetime", "amount": 10**15}, "is not from 0"),
        ({"target": "to-offset", "amount": "9" * 5_000}, "not a number"),
    ],
)
def test_a_malformed_reset_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        reset_of({"group": "g", **given})


def parsed(line: str) -> argparse.Namespace:
    program, *words = shlex.split(line)
    assert program == "bin/cluster"
    parser = CommandParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(words)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["billing", "-x y'z", 'a "b" $c'])
def test_the_command_line_does_the_same(target: Target, name: str) -> None:
    amounts = {Target.OFFSET: 7, Target.SHIFT: -3, Target.TIME: 1_700_000_000_123}
    amount = amounts.get(target, 0)
    args = parsed(reset_command("bin/cluster", Reset(name, target, amount)))
    assert (args.action, args.group) == ("reset-offsets", [name])
    assert args.all_topics
    assert args.execute
    given = getattr(args, target.value.replace("-", "_"))
    assert given == (amount if target in amounts else True)
    named = parsed(reset_command("bin/cluster", Reset(name, target, amount, "orders")))
    assert (named.topic, named.all_topics) == (["orders"], False)
    assert tool_reset.named_partitions(named.topic[0]) == ("orders", None)


def test_a_preview_has_the_offsets_before_and_after() -> None:
    found = reset_view(
        Reset("g", Target.EARLIEST),
        {A: 5, Place("audit", 0): 1},
        NewOffsets({B: 0, A: 0}, ["moved"]),
        "",
        "bin/cluster",
    )
    assert [(each["partition"], each["from"], each["to"]) for each in found["rows"]] == [
        (0, 5, 0),
        (1, None, 0),
    ]
    assert (found["changed"], found["partitions"], found["warnings"]) == (2, 2, ["moved"])
    assert found["topics"] == ["audit", "orders"]


def test_a_group_with_members_is_not_reset_and_says_who_is_in_it() -> None:
    check_resettable(group(state="Empty"))
    assert why_not(group(state="Empty")) == ""
    many = group(*(member(f"c{number}") for number in range(5)))
    with pytest.raises(UserError, match=r"5 members: c0 at 10.0.0.1, .* and 2 more. Stop them"):
        check_resettable(many)
    assert "it is PreparingRebalance with 1 member: a at" in why_not(
        group(member("a"), state="PreparingRebalance")
    )
