"""Which rack each broker of a start gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.launch.racks import next_rack, parse_racks, racks_of_brokers, remembered_racks
from cluster.model.errors import UserError

NAMES = st.text("abc-1", min_size=1, max_size=4)


def racks(named=None, in_settings=None, before=(), count=3):
    found = racks_of_brokers(named, in_settings, dict(enumerate(before)), range(count), pytest.fail)
    assert list(found) == list(range(count))
    return list(found.values())


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(0, 12))
def test_a_list_is_repeated_over_the_brokers(names, more):
    count = len(names) + more
    found = racks(", ".join(names), count=count)
    assert found == (names * count)[:count]


def test_an_empty_list_takes_the_racks_away():
    assert racks("", before=["a", "b", "c"]) == [None, None, None]


@pytest.mark.parametrize("named", ["a,,b", ",", "a,", " ,a"])
def test_an_empty_name_is_refused(named):
    with pytest.raises(UserError, match="has an empty name"):
        parse_racks(named)


def test_more_racks_than_brokers_are_refused():
    with pytest.raises(UserError, match="names 3 racks for 1 broker: name at most 1"):
        racks("a,b,c", count=1)


def test_racks_are_remembered_and_further_brokers_join_those_with_the_fewest():
    assert racks(before=["a", "b", "a"], count=6) == ["a", "b", "a", "b", "a", "b"]
    assert racks(before=[None, None], count=3) == [None, None, None]
    assert racks(before=["a", None], count=4) == ["a", None, "a", "a"]


def test_a_rack_of_the_settings_is_that_of_every_broker():
    assert racks(in_settings="x", before=["a", "b", "c"]) == ["x", "x", "x"]
    assert racks(in_settings="", before=["a", "b", "c"]) == [None, None, None]


def test_the_option_is_stronger_than_the_settings_and_says_so():
    notes = []
    assert racks_of_brokers("a", "x", {}, [4, 7], notes.append) == {4: "a", 7: "a"}
    assert notes == ["--racks replaces broker.rack=x of the settings."]


def test_racks_of_the_state_file_are_read_by_broker_id():
    brokers = [{"id": 3, "rack": "a"}, {"id": 1, "rack": None}, {}]
    assert remembered_racks({"brokers": brokers}) == {3: "a", 1: None, 2: None}
    assert remembered_racks({"brokers": "?"}) == remembered_racks(None) == {}


def test_racks_stay_with_their_brokers_if_one_joins_between_them():
    found = racks_of_brokers(None, None, {1: "a", 9: "b"}, [1, 5, 9, 10], pytest.fail)
    assert found == {1: "a", 5: "a", 9: "b", 10: "b"}


@given(st.lists(st.one_of(st.none(), NAMES)))
def test_the_next_broker_never_joins_a_rack_with_more_than_another(present):
    found = next_rack(present)
    named = [rack for rack in present if rack is not None]
    assert (found is None) == (not named)
    if found is not None:
        assert all(named.count(found) <= named.count(rack) for rack in named)
