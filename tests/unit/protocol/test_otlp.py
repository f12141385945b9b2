"""Metrics in OTLP, as clients push them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.protocol.otlp import FIELDS_MAX, LABELS_MAX, POINTS_MAX, Point, read_metrics
from tests.support import otlp_messages as otlp

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
LABELS = st.dictionaries(NAMES, NAMES, max_size=3)
VALUES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))


@given(st.lists(st.tuples(NAMES, VALUES, LABELS), max_size=10), LABELS)
def test_gauges_are_read_as_they_were_written(metrics, resource):
    payload = otlp.metrics_data(
        [
            otlp.message(1, name.encode()) + otlp.message(5, otlp.message(1, otlp.point(*each)))
            for name, *each in metrics
        ]
    )
    attributes = b"".join(otlp.message(1, otlp.pair(*each)) for each in resource.items())
    found = read_metrics(payload + otlp.message(1, otlp.message(1, attributes)))
    assert found.points == [
        Point(name, tuple(sorted(labels.items())), value, False, False)
        for name, value, labels in metrics
    ]
    assert found.labels == tuple(sorted(resource.items()))
    assert (found.left_out, found.is_cut) == (0, False)


def test_counters_say_whether_they_are_differences():
    found = read_metrics(
        otlp.metrics_data(
            [
                otlp.counter("sent", 3, node="1"),
                otlp.counter("all", 7.5, otlp.CUMULATIVE),
                otlp.histogram("latency", 2, 5.5),
            ]
        )
    )
    assert found.points == [
        Point("sent", (("node", "1"),), 3, True, True),
        Point("all", (), 7.5, True, False),
        Point("latency.count", (), 2, True, True),
        Point("latency.sum", (), 5.5, True, True),
    ]


def test_a_sum_that_may_shrink_is_a_gauge():
    data = otlp.message(1, otlp.point(4, {})) + otlp.number_field(2, otlp.DELTA)
    metric = otlp.message(1, b"open") + otlp.message(7, data)
    assert read_metrics(otlp.metrics_data([metric])).points == [Point("open", (), 4, False, False)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (otlp.message(1, b"x"), "x"),
        (otlp.number_field(2, 1), "true"),
        (otlp.number_field(3, 5), "5"),
        (otlp.number_field(3, 2**64 - 5), "-5"),
        (otlp.double_field(4, 0.5), "0.5"),
        (otlp.message(5, b""), ""),
    ],
)
def test_attributes_of_every_type_become_texts(value, text):
    attribute = otlp.message(1, b"k") + otlp.message(2, value)
    data = otlp.message(1, otlp.double_field(4, 1.0) + otlp.message(7, attribute))
    metric = otlp.message(1, b"m") + otlp.message(5, data)
    (point,) = read_metrics(otlp.metrics_data([metric])).points
    assert point.labels == (("k", text),)


def test_unknown_fields_and_kinds_are_skipped():
    summary = otlp.message(1, b"quantiles") + otlp.message(11, otlp.message(1, b""))
    strange = otlp.message(99, b"?") + otlp.number_field(98, 7) + otlp.gauge("g", 1)
    found = read_metrics(otlp.metrics_data([summary, strange]))
    assert [each.name for each in found.points] == ["g"]
    assert found.left_out == 1


def test_points_with_many_attributes_are_left_out():
    labels = {f"l{number}": "" for number in range(LABELS_MAX + 1)}
    found = read_metrics(otlp.metrics_data([otlp.gauge("g", 1.0, **labels)]))
    assert (found.points, found.left_out) == ([], 1)


def test_a_push_is_read_up_to_its_limits():
    many = read_metrics(otlp.metrics_data([otlp.gauge(f"g{n}", n) for n in range(POINTS_MAX + 1)]))
    assert (len(many.points), many.is_cut) == (POINTS_MAX, True)
    fields = read_metrics(otlp.metrics_data([otlp.number_field(98, 7) * FIELDS_MAX]))
    assert (fields.points, fields.is_cut) == ([], True)


@pytest.mark.parametrize(
    "payload", [b"\x0a\x05ab", b"\x0b", b"\x80" * 11, b"\x09\x00", b"\x08", b"\x0f\x00"]
)
def test_bytes_that_are_no_protobuf_are_refused(payload):
    with pytest.raises(PeerError):
        read_metrics(payload)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read_as_something(payload):
    try:
        found = read_metrics(payload)
    except PeerError:
        return
    assert len(found.points) <= len(payload)


@given(st.binary(max_size=8), st.integers(0, 200), st.integers(0, 200))
def test_damage_is_refused_or_read_as_something(damage, at, length):
    whole = otlp.metrics_data([otlp.counter("sent", 3, node="1"), otlp.gauge("g", 1)], client="x")
    try:
        found = read_metrics(whole[:at] + damage + whole[at + length :])
    except PeerError:
        return
    assert len(found.points) <= 2
