"""Rows that are met again are not read again, and those that are gone are forgotten."""

from cluster.metrics.stats_layout import QuotaRow
from cluster.views.known_rows import KnownRows


def packed(rate: float) -> bytes:
    return QuotaRow(quota="produce", user="u", client_id="c", rate=rate).pack()


def test_a_row_is_read_once_while_it_stays_the_same() -> None:
    known = KnownRows()
    known.begin()
    first = known.unpack(packed(1.0))
    assert first is not None
    assert first.rate == 1.0
    known.begin()
    assert known.unpack(packed(1.0)) is first
    changed = known.unpack(packed(2.0))
    assert changed is not None
    assert changed.rate == 2.0


def test_a_row_that_was_not_met_in_a_reading_is_forgotten() -> None:
    known = KnownRows()
    known.begin()
    first = known.unpack(packed(1.0))
    known.begin()
    known.begin()
    again = known.unpack(packed(1.0))
    assert again == first
    assert again is not first
