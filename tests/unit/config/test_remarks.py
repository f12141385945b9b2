from cluster.config.remarks import lines_by_reason, remarks_on
from cluster.config.settings import broker_settings


def test_values_without_effect_are_named_as_they_were_given_with_one_line_for_each_reason():
    settings = broker_settings(
        {
            "controlled.shutdown.max.retries": "4",
            "controlled.shutdown.retry.backoff.ms": "20",
            "group.coordinator.rebalance.protocols": "classic",
            "log.segment.bytes": "1000",
        }
    )
    assert remarks_on(settings) == [
        "Warning: controlled.shutdown.max.retries, controlled.shutdown.retry.backoff.ms (accepted,"
        " without effect yet: a stopping broker repeats its request for three seconds, and again"
        " if the controller changes).",
        "Warning: group.coordinator.rebalance.protocols (effective in part:"
        " there are no streams groups or share groups).",
    ]


def test_explicit_default_has_no_remark():
    assert remarks_on(broker_settings({"controlled.shutdown.max.retries": "3"})) == []


def test_reasons_come_in_the_order_of_their_first_key():
    assert lines_by_reason("No", [("a", "x"), ("b", None), ("c", "y"), ("d", "x")]) == [
        "No: a, d (x).",
        "No: c (y).",
    ]
