"""A client's usage is added up as its table says, and rows of the stats file have its fields."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.dashboard.families import USAGE_FAMILIES
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.quota_usage import (
    CLIENT_KEYS,
    KAFKA_SENSORS,
    SUMMED,
    USAGE_FIELDS,
    Adding,
    QuotaUsage,
)
from cluster.model.quotas import CLIENT_KINDS, QuotaKind

_COUNTS = st.integers(0, 1_000)
_USAGES = st.builds(
    QuotaUsage,
    quota=st.just(QuotaKind.FETCH),
    user=st.just("u"),
    client_id=st.just("c"),
    rule=st.sampled_from([None, "user", "client"]),
    limit=st.none() | _COUNTS.map(float),
    usage=_COUNTS.map(float),
    rate=_COUNTS.map(float),
    requests=_COUNTS,
    throttled=_COUNTS,
    throttle_ms=_COUNTS,
    throttle_ms_max=_COUNTS,
    muted_ms=_COUNTS,
)
_ADDING: dict[Adding, Callable[[Any, Any], Any]] = {
    Adding.KEY: lambda earlier, _: earlier,
    Adding.LAST: lambda _, later: later,
    Adding.SUM: lambda earlier, later: earlier + later,
    Adding.MAX: max,
}


@given(_USAGES, _USAGES)
def test_two_intervals_are_added_up_as_the_table_says(earlier, later):
    expected = {
        name: _ADDING[field.adding](getattr(earlier, name), getattr(later, name))
        for name, field in USAGE_FIELDS.items()
    }
    earlier.add(later)
    assert {name: getattr(earlier, name) for name in USAGE_FIELDS} == expected


def test_the_table_has_every_field_in_the_order_of_metric_records():
    assert [*USAGE_FIELDS] == [field.name for field in fields(QuotaUsage)]
    assert set(CLIENT_KEYS) == {
        name for name, field in USAGE_FIELDS.items() if field.adding is Adding.KEY
    }


def test_rows_of_the_stats_file_have_every_field():
    assert set(USAGE_FIELDS) <= set(QuotaRow._fields)


def test_prometheus_has_a_counter_of_every_field_that_is_summed_up():
    assert tuple(USAGE_FAMILIES) == SUMMED


@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_each_kind_of_client_quota_has_a_kafka_sensor(kind):
    assert KAFKA_SENSORS[kind].type
