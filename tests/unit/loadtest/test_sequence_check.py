import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cluster.loadtest import sequence_check
from cluster.loadtest.sequence_check import Promised, SequenceCheck, Verified, by_partition, verify


def checked(*sequences: int) -> SequenceCheck:
    check = SequenceCheck()
    for sequence in sequences:
        check.on_sequence(sequence)
    return check


def test_check_is_perfect_when_all_arrived_once_in_order():
    verified = verify({(0, 0): Promised(3)}, {(0, 0): checked(0, 1, 2)})
    assert verified == Verified(sent=3, received=3, lost=0, duplicates=0, out_of_order=0)
    assert verified.is_perfect


def test_gap_counts_as_lost():
    assert verify({(0, 0): Promised(4)}, {(0, 0): checked(0, 3)}).lost == 2


def test_missing_records_at_the_end_count_as_lost():
    assert verify({(0, 0): Promised(5)}, {(0, 0): checked(0, 1)}).lost == 3
    assert verify({(0, 0): Promised(5)}, {}).lost == 5


def test_a_failed_record_that_did_not_arrive_is_not_lost():
    verified = verify({(0, 0): Promised(5, unsure=(2, 4))}, {(0, 0): checked(0, 1, 3)})
    assert verified.lost == 0


def test_failed_record_that_arrived_is_accepted():
    verified = verify({(0, 0): Promised(2, unsure=(1,))}, {(0, 0): checked(0, 1)})
    assert verified.is_perfect


def test_late_record_is_out_of_order_and_not_lost():
    verified = verify({(0, 0): Promised(3)}, {(0, 0): checked(0, 2, 1)})
    assert (verified.lost, verified.out_of_order, verified.duplicates) == (0, 1, 0)


def test_repeated_record_is_a_duplicate():
    verified = verify({(0, 0): Promised(2)}, {(0, 0): checked(0, 1, 0, 1)})
    assert (verified.received, verified.duplicates, verified.is_perfect) == (2, 2, False)


def test_repeated_record_is_no_fault_of_a_group():
    again = verify({(0, 0): Promised(2)}, {(0, 0): checked(0, 0, 1)})
    assert (again.is_perfect, again.is_at_least_once) == (False, True)
    for wrong in (checked(1), checked(1, 0)):
        assert not verify({(0, 0): Promised(2)}, {(0, 0): wrong}).is_at_least_once


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=20))
def test_a_run_is_all_of_its_records(runs):
    at_once, one_by_one = SequenceCheck(), SequenceCheck()
    for first, more in runs:
        at_once.on_run(first, first + more)
        for sequence in range(first, first + more + 1):
            one_by_one.on_sequence(sequence)
    assert at_once == one_by_one


def test_producers_and_partitions_are_counted_apart():
    promised = {(0, 0): Promised(1), (1, 0): Promised(1), (0, 1): Promised(2)}
    checks = {(0, 0): checked(0), (1, 0): checked(0), (0, 1): checked(0)}
    assert verify(promised, checks).lost == 1
    assert {part: one.lost for part, one in by_partition(promised, checks).items()} == {0: 0, 1: 1}


def test_gap_too_large_to_remember_is_counted(monkeypatch):
    monkeypatch.setattr(sequence_check, "MISSING_MAX", 10)
    check = checked(0, 5, 1_000)
    assert check.lost(1_001, ()) == 998
    assert len(check.missing) == 4


@given(st.integers(0, 60), st.sets(st.integers(0, 59)), st.randoms(use_true_random=False))
def test_check_counts_every_order_correctly(sent, dropped, dice: Random):
    arrived = [sequence for sequence in range(sent) if sequence not in dropped]
    dice.shuffle(arrived)
    copy = SequenceCheck.from_json(json.loads(json.dumps(checked(*arrived).to_json())))
    verified = verify({(0, 0): Promised(sent)}, {(0, 0): copy})
    assert verified.received == len(arrived)
    assert verified.lost == sent - len(arrived)
    assert verified.duplicates == 0
