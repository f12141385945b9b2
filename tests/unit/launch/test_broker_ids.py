"""Which brokers a start runs: ids of the command line, and those of the last start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.datadir.state_file import KnownBroker
from cluster.launch.broker_ids import choose_brokers, next_id, parse_broker_ids
from cluster.model.errors import UserError


def ids_of(brokers):
    return [each.id for each in brokers]


@pytest.mark.parametrize(
    ("text", "ids"), [("7", (7,)), ("5, 1,100-102", (1, 5, 100, 101, 102)), ("0-0", (0,))]
)
def test_a_list_has_ids_and_ranges(text, ids):
    assert parse_broker_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "such as 1,5,100-102"),
        ("1,,2", "such as 1,5,100-102"),
        ("-1", "such as 1,5,100-102"),
        ("1-", "such as 1,5,100-102"),
        ("one", "such as 1,5,100-102"),
        ("²", "such as 1,5,100-102"),
        ("3-1", "3-1 is not a range of ids"),
        ("2147483648", "is not a range of ids from 0 to 2147483647"),
        ("0-2147483647", "more than 1000 brokers"),
        ("1-3,2", "names broker 2 twice"),
    ],
)
def test_a_list_that_is_none_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_broker_ids(text)


def test_a_first_start_numbers_its_brokers_unless_their_ids_are_named():
    assert choose_brokers(None, None, (), 3) == tuple(KnownBroker(n, n) for n in range(3))
    assert ids_of(choose_brokers(2, None, (), 3)) == [0, 1]
    assert choose_brokers(2, (5, 100), (), 3) == (KnownBroker(5, 0), KnownBroker(100, 1))


def test_later_starts_keep_every_broker_and_its_ports():
    before = (KnownBroker(0, 0), KnownBroker(2, 2), KnownBroker(7, 4))
    assert choose_brokers(None, None, before, 3) == before
    assert choose_brokers(3, None, before, 3) == before
    assert choose_brokers(5, None, before, 3) == (*before, KnownBroker(8, 1), KnownBroker(9, 3))
    more = choose_brokers(None, (0, 1, 2, 7), before, 3)
    assert more == (KnownBroker(0, 0), KnownBroker(1, 1), *before[1:])


def test_a_start_without_a_broker_that_has_data_is_refused():
    before = (KnownBroker(1, 0), KnownBroker(5, 1))
    with pytest.raises(UserError, match=r"2 brokers \(1, 5\), and 1 would lose replicas"):
        choose_brokers(1, None, before, 3)
    with pytest.raises(UserError, match="without 5 replicas would be lost"):
        choose_brokers(None, (1, 2), before, 3)
    with pytest.raises(UserError, match="contradict each other"):
        choose_brokers(3, (1, 5), before, 3)


@given(st.sets(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 4))
def test_no_two_brokers_share_a_slot(ids, more):
    before = choose_brokers(None, sorted(ids), (), 3)
    now = choose_brokers(len(ids) + more, None, before, 3)
    assert len({each.slot for each in now}) == len({each.id for each in now}) == len(ids) + more
    assert set(before) <= set(now)


def test_the_next_id_follows_those_in_use_and_is_none_of_the_generated_ones():
    assert next_id({0, 1, 7}, 1000) == 8
    assert next_id({0, 1, 1001}, 1000) == 2
    assert next_id({0, 3}, 3) == 1
    assert next_id({0, 1}, 1) is None
    assert next_id(set(), 0) == 0
