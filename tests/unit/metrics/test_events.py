"""Events are kept in order and in bounds until they are taken."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.metrics.events import (
    DETAIL_MAX_CHARACTERS,
    SUBJECT_MAX_BYTES,
    Event,
    EventKind,
    EventLog,
    listed,
    shortened,
)


def test_events_are_taken_once_and_in_order():
    events = EventLog()
    events.note(EventKind.BROKER_DOWN, "1", "live brokers: 0, 2")
    events.note(EventKind.ELECTION, "orders", "0: 1->2, 3: 1->0", 2)
    assert events.take() == [
        Event(EventKind.BROKER_DOWN, "1", "live brokers: 0, 2", 1),
        Event(EventKind.ELECTION, "orders", "0: 1->2, 3: 1->0", 2),
    ]
    assert events.take() == []


def test_events_beyond_the_bound_are_counted():
    events = EventLog()
    for number in range(1_000):
        kind = EventKind.ELECTION if number % 2 else EventKind.ISR_SHRINK
        events.note(kind, f"topic-{number}", "0: 1->2", 3)
    taken = events.take()
    assert [event.subject for event in taken[:200]] == [f"topic-{n}" for n in range(200)]
    assert {(event.kind, event.subject, event.count) for event in taken[200:]} == {
        (EventKind.ELECTION, "_other", 400 * 3),
        (EventKind.ISR_SHRINK, "_other", 400 * 3),
    }
    events.note(EventKind.ELECTION, "topic-1", "0: 1->2")
    assert [event.subject for event in events.take()] == ["topic-1"]


def test_cause_keeps_its_name_after_a_thousand_elections():
    events = EventLog()
    for number in range(1_000):
        events.note(EventKind.ELECTION, f"topic-{number}", "0: 1->2")
    events.note(EventKind.BROKER_DOWN, "1", "live brokers: 0, 2")
    assert Event(EventKind.BROKER_DOWN, "1", "live brokers: 0, 2", 1) in events.take()


@given(st.text(alphabet=st.characters(), max_size=1_000))
def test_a_detail_is_one_short_line(text: str):
    detail = shortened(text)
    assert len(detail) <= DETAIL_MAX_CHARACTERS
    assert detail.isprintable() or detail.splitlines() == [detail] or not detail
    if len(text) <= DETAIL_MAX_CHARACTERS and text.isascii() and text.isprintable():
        assert detail == text


def test_the_end_of_a_long_subject_is_cut():
    events = EventLog()
    events.note(EventKind.REBALANCE, "g" * SUBJECT_MAX_BYTES, "")
    events.note(EventKind.QUOTA, "ü" * SUBJECT_MAX_BYTES, "")
    whole, cut = events.take()
    assert len(whole.subject) == SUBJECT_MAX_BYTES
    assert cut.subject == "ü" * (SUBJECT_MAX_BYTES // 2)


@given(st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=60))
def test_listed_names_as_many_items_as_fit(items: list[str]):
    text = listed(iter(items), len(items))
    assert len(text) <= DETAIL_MAX_CHARACTERS
    shown, _, rest = text.partition(", and ")
    named = shown.split(", ")
    assert named == items[: len(named)]
    left = int(rest.split()[0]) if rest else 0
    assert len(named) + left == len(items)


def test_listed_counts_items_when_none_fits():
    assert listed(["x" * 600, "y"], 2) == "2 of them"
