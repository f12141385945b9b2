"""Listeners of each broker, from settings that are the same for all and from the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.setting import SettingError
from cluster.launch.listener_plan import ADVERTISED, LISTENERS, Wishes, plan_listeners

NOTHING = Wishes(None, None, None)


def texts_of(texts, wishes=NOTHING, brokers=1, free=()):
    """What each broker would be started with; `free` are the ports for those that ask for any."""
    plan, any_port = plan_listeners(texts, wishes, range(brokers)), iter(free)
    return [
        plan.texts(broker, [each.port or next(any_port) for each in plan.wanted(broker)])
        for broker in range(brokers)
    ]


def listened(texts, wishes=NOTHING, brokers=1, free=()):
    return [each[LISTENERS] for each in texts_of(texts, wishes, brokers, free)]


def told(texts, wishes=NOTHING, brokers=1, free=()):
    return [each[ADVERTISED] for each in texts_of(texts, wishes, brokers, free)]


TWO = {LISTENERS: "A://:9092,B://:9192"}
NEXT_TO_EACH_OTHER = {LISTENERS: "A://:9092,B://:9093"}


def test_without_settings_each_broker_has_the_plain_listener_and_the_next_port():
    assert listened({}, brokers=2) == ["PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9093"]


def test_every_port_is_that_of_the_settings_plus_the_number_of_the_broker():
    assert listened(TWO, brokers=2) == [
        "A://127.0.0.1:9092,B://127.0.0.1:9192",
        "A://127.0.0.1:9093,B://127.0.0.1:9193",
    ]


def test_ports_that_lie_close_together_are_moved_further():
    assert listened(NEXT_TO_EACH_OTHER, brokers=2) == [
        "A://127.0.0.1:9092,B://127.0.0.1:9093",
        "A://127.0.0.1:9094,B://127.0.0.1:9095",
    ]


@given(st.sets(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 6))
def test_no_two_listeners_share_a_port(ports, brokers):
    names = [f"L{number}://:{port}" for number, port in enumerate(ports)]
    plan = plan_listeners({LISTENERS: ",".join(names)}, NOTHING, range(brokers))
    taken = [each.port for broker in range(brokers) for each in plan.wanted(broker)]
    assert len(set(taken)) == len(ports) * brokers


def test_the_port_of_the_command_line_moves_all_listeners():
    assert listened(TWO, Wishes(None, 9000, None)) == ["A://127.0.0.1:9000,B://127.0.0.1:9100"]
    assert listened({LISTENERS: "A://:0,B://:7"}, Wishes(None, 9000, None)) == [
        "A://127.0.0.1:9000,B://127.0.0.1:7"
    ]


def test_any_free_port_is_chosen_for_all_listeners_or_for_one():
    free = Wishes(None, 0, None)
    assert listened(TWO, free, free=(5, 6)) == ["A://127.0.0.1:5,B://127.0.0.1:6"]
    assert listened({LISTENERS: "A://:0,B://:7"}, free=(5,)) == ["A://127.0.0.1:5,B://127.0.0.1:7"]


def test_a_host_of_the_settings_stands_unless_the_command_line_names_one():
    texts = {LISTENERS: "A://:1,B://0.0.0.0:2"}
    assert listened(texts) == ["A://127.0.0.1:1,B://0.0.0.0:2"]
    assert listened(texts, Wishes("::1", None, None)) == ["A://[::1]:1,B://[::1]:2"]


def test_clients_are_told_where_a_broker_listens_and_loopback_for_every_address():
    texts = {LISTENERS: "A://h:1,B://0.0.0.0:2"}
    assert told(texts, brokers=2) == ["A://h:1,B://127.0.0.1:2", "A://h:3,B://127.0.0.1:4"]
    assert told(texts, Wishes(None, None, "me")) == ["A://me:1,B://me:2"]


def test_an_advertised_port_that_is_listened_on_moves_with_it():
    texts = {**TWO, ADVERTISED: "A://a.example:9092,B://b.example:9192"}
    assert told(texts, brokers=2) == [
        "A://a.example:9092,B://b.example:9192",
        "A://a.example:9093,B://b.example:9193",
    ]
    assert told(texts, Wishes(None, 0, None), free=(5, 6)) == ["A://a.example:5,B://b.example:6"]


def test_another_advertised_port_is_told_as_it_is_by_a_single_broker():
    texts = {**TWO, ADVERTISED: "A://a.example:80"}
    assert told(texts) == ["A://a.example:80"]
    with pytest.raises(SettingError, match=r"A://a.example:80 cannot be the same for several"):
        plan_listeners(texts, NOTHING, range(2))
    assert told(texts, Wishes(None, None, "me"), brokers=2) == ["A://me:9092", "A://me:9093"]


def test_a_listener_that_is_not_advertised_is_not_told():
    assert told({**TWO, ADVERTISED: "B://h:9192"}) == ["B://h:9192"]


def test_an_advertised_name_that_is_no_listener_is_left_to_the_check_of_the_settings():
    assert told({**TWO, ADVERTISED: "C://h:1"}) == ["C://h:1"]


def test_listeners_that_are_none_are_refused():
    with pytest.raises(SettingError, match="listeners is empty: a broker needs at least one"):
        plan_listeners({LISTENERS: ""}, NOTHING, range(1))
