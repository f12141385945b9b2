"""The members of a group together: what arrived, in which order, and when everything has."""

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cluster.loadtest.group_account import (
    GroupResult,
    MemberAccount,
    as_runs,
    checks_of,
    group_result,
    is_all_read,
)
from cluster.loadtest.load_run import LoadResult
from cluster.loadtest.result_text import group_text, result_json, result_text
from cluster.loadtest.sequence_check import Promised, SequenceCheck, Verified, verify

STAMPS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 9)), max_size=40)


def told(account: MemberAccount, kind: str, **document: object) -> None:
    """The messages as they come through the pipe."""
    account.take(json.loads(json.dumps({"kind": kind, **document})))


def received(
    account: MemberAccount, at_us: int, *stamps: tuple[int, int, int], **positions: int
) -> None:
    pairs = [(int(name[1:]), offset) for name, offset in positions.items()]
    told(account, "received", at_us=at_us, runs=as_runs(stamps), positions=pairs)


@given(STAMPS)
def test_runs_are_the_records_in_their_order(stamps):
    runs = as_runs(stamps)
    for place in {stamp[:2] for stamp in stamps}:
        mine = [sequence for *its, sequence in stamps if tuple(its) == place]
        spread = [
            sequence
            for producer, partition, first, last in runs
            if (producer, partition) == place
            for sequence in range(first, last + 1)
        ]
        assert spread == mine
    assert as_runs([(0, 0, n) for n in range(500)]) == [(0, 0, 0, 499)]


@given(st.lists(STAMPS, max_size=6), st.randoms(use_true_random=False))
def test_checks_combine_members_in_order_of_time(batches, dice: Random):
    members = [MemberAccount() for _ in range(3)]
    expected: dict[tuple[int, int], SequenceCheck] = {}
    for at_us, stamps in enumerate(batches):
        received(dice.choice(members), at_us, *stamps)
        for producer, partition, first, last in as_runs(stamps):
            check = expected.setdefault((producer, partition), SequenceCheck())
            check.on_run(first, last)
    assert checks_of(members) == expected


def test_a_member_that_dies_has_its_records_repeated_not_lost():
    dead, heir = MemberAccount(), MemberAccount()
    received(dead, 10, (0, 0, 0), (0, 0, 1), (0, 0, 2), p0=3)
    dead.is_killed = True
    received(heir, 20, (0, 0, 1), (0, 0, 2), (0, 0, 3), p0=4)
    verified = verify({(0, 0): Promised(4)}, checks_of([heir, dead]))
    assert verified == Verified(sent=4, received=4, lost=0, duplicates=2, out_of_order=0)


def test_is_all_read_when_each_end_was_reached():
    one, other = MemberAccount(), MemberAccount()
    assert is_all_read([one], {0: 0})
    received(one, 1, p0=5, p1=3)
    assert not is_all_read([one, other], {0: 5, 1: 4})
    received(other, 2, p1=4)
    received(other, 3, p1=2)  # it returned to the committed offset
    assert is_all_read([one, other], {0: 5, 1: 4, 2: 0})


def a_result() -> GroupResult:
    first, second = MemberAccount(commits=3), MemberAccount(commits=4, failed_commits=1)
    for what in ("assigned", "revoked", "assigned"):
        told(first, "rebalance", what=what, at_us=1, partitions=[0])
    told(second, "rebalance", what="assigned", at_us=1, partitions=[])
    told(second, "rebalance", what="lost", at_us=2, partitions=[1])
    second.is_killed = True
    return group_result("g", "classic", {"a": first, "b\n": second}, lag=7)


def test_rebalances_count_once_and_not_the_first():
    result = a_result()
    assert (result.members, result.rebalances, result.lost_partitions) == (2, 1, 1)
    assert (result.commits, result.failed_commits, result.lag) == (7, 1, 7)
    assert result.killed == ["b\n"]
    assert group_text(result).splitlines() == [
        "Group g (classic): 2 members, 1 rebalances after the first, 7 commits, 1 failed,"
        " lag at the end 7",
        "Killed in the middle: b\\n",
        "1 times a member lost its partitions to others",
    ]
    assert group_result("g", "classic", {}, None).rebalances == 0


def test_repeats_are_right_for_a_group_and_wrong_for_others():
    again = Verified(sent=4, received=4, lost=0, duplicates=2, out_of_order=0)
    lost = Verified(sent=4, received=3, lost=1, duplicates=0, out_of_order=0)
    group = a_result()

    def run(verified: Verified, group: GroupResult | None) -> LoadResult:
        return LoadResult("t", [], [], 1.0, False, verified, {}, group)

    assert (run(again, group).exit_status, run(again, None).exit_status) == (0, 1)
    assert run(lost, group).exit_status == 1
    assert "\n✓ 4 of 4 records arrived, 0 lost, 2 duplicates" in result_text(run(again, group))
    assert "\n✗ 4 of 4 records arrived, 0 lost, 2 duplicates" in result_text(run(again, None))
    assert result_json(run(again, group))["group"]["rebalances"] == 1
    assert result_json(run(again, None))["group"] is None
