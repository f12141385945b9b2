"""Histograms as columns of maps, bucket to count: creation, sums, percentiles, all vectorized.

Counts of buckets can be added in any order, so sums of sums are exact. The bucket of a rate is the
upper 16 bits of its 32-bit float: 7 bits of its mantissa, an error of at most 0.4 % at the middle
of a bucket. Durations have buckets that double in width (`metrics/histogram.py`). Pure.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.kinds import HISTOGRAM
from cluster.metrics.histogram import BUCKETS

RATE_ERROR: Final = 1 / 256
"""The maximum relative error of `rates_of`."""
_LOWER_BITS: Final = 16
_MIDDLE: Final = 1 << (_LOWER_BITS - 1)
_PLACE_BITS: Final = 32


def rate_codes(rates: pa.ChunkedArray) -> pa.Array:
    """The bucket of each rate, which is not negative and below 1e38."""
    bits = one_array(pc.cast(rates, pa.float32())).view(pa.int32())
    return pc.cast(pc.shift_right(bits, _LOWER_BITS), pa.int32())


def rates_of(codes: pa.Array) -> pa.Array:
    """The rate in the middle of each bucket; 0 for the lowest, which contains 0."""
    whole = pc.shift_left(pc.cast(codes, pa.int64()), _LOWER_BITS)
    middles = pc.if_else(pc.equal(whole, 0), 0, pc.bit_wise_or(whole, _MIDDLE))
    return pc.cast(pc.cast(one_array(middles), pa.int32()).view(pa.float32()), pa.float64())


def singles(codes: pa.Array) -> pa.Array:
    """A histogram of one observation for each bucket given."""
    count = len(codes)
    ones = pa.repeat(pa.scalar(1, pa.int64()), count)
    return pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), codes, ones)


def of_counts(lists: pa.ChunkedArray) -> pa.Array:
    """Histograms of lists of counts, in which the index is the bucket."""
    lists = one_array(lists)
    flat = lists.flatten()
    parents = pc.list_parent_indices(lists)
    starts = _ends_before(pc.list_value_length(lists)).take(parents)
    places = pc.subtract(pa.array(range(len(flat)), pa.int64()), starts)
    is_met = pc.greater(flat, 0)
    kept_parents = parents.filter(is_met)
    return _maps(
        kept_parents, pc.cast(places, pa.int32()).filter(is_met), flat.filter(is_met), len(lists)
    )


def added_up(histograms: pa.ChunkedArray, rows: pa.ChunkedArray) -> pa.Array:
    """The sum of the histograms of each group; `rows` has the list of rows of each group."""
    rows = one_array(rows)
    histograms = one_array(histograms)
    ordered = histograms.take(rows.flatten())
    groups = pc.list_parent_indices(rows)
    parents = groups.take(_entry_parents(ordered))
    places = pc.bit_wise_or(
        pc.shift_left(pc.cast(parents, pa.int64()), _PLACE_BITS),
        pc.cast(_keys(ordered), pa.int64()),
    )
    summed = (
        pa.table({"place": places, "count": _items(ordered)})
        .group_by("place", use_threads=False)
        .aggregate([("count", "sum")])
        .sort_by("place")
    )
    place = one_array(summed["place"])
    buckets = pc.cast(pc.bit_wise_and(place, (1 << _PLACE_BITS) - 1), pa.int32())
    return _maps(
        pc.shift_right(place, _PLACE_BITS), buckets, one_array(summed["count_sum"]), len(rows)
    )


def rate_quantile(histograms: pa.ChunkedArray, percent: int) -> pa.Array:
    """The nearest-rank percentile of each histogram of rates; null for an empty one."""
    found = _at_rank(one_array(histograms), percent)
    rates = rates_of(found["bucket"])
    return _spread(found["row"], rates, len(histograms))


def duration_quantile_us(histograms: pa.ChunkedArray, percent: int) -> pa.Array:
    """A percentile of each histogram of durations, linear within its bucket; null for an empty one.

    The last bucket counts as its lower bound (`metrics/histogram.quantile_us`).
    """
    found = _at_rank(one_array(histograms), percent)
    bucket = found["bucket"]
    high = pc.shift_left(
        pa.repeat(pa.scalar(1, pa.int64()), len(bucket)), pc.cast(bucket, pa.int64())
    )
    low = pc.if_else(pc.equal(bucket, 0), pa.scalar(0, pa.int64()), pc.shift_right(high, 1))
    high = pc.if_else(pc.greater_equal(bucket, BUCKETS - 1), low, high)
    share = pc.divide(
        pc.subtract(
            pc.multiply(found["total"], percent / 100), pc.cast(found["before"], pa.float64())
        ),
        pc.cast(found["count"], pa.float64()),
    )
    inside = pc.multiply(pc.cast(pc.subtract(high, low), pa.float64()), share)
    return _spread(found["row"], pc.add(pc.cast(low, pa.float64()), inside), len(histograms))


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _at_rank(histograms: pa.Array, percent: int) -> pa.Table:
    """For each nonempty histogram: its row, the bucket with the nearest rank of the percentile, and
    the number of observations in it, before it, and in all.
    """
    counts = _items(histograms)
    row = _entry_parents(histograms)
    upto = pc.cumulative_sum(counts)
    totals = (
        pa.table({"row": row, "count": counts})
        .group_by("row", use_threads=False)
        .aggregate([("count", "sum")])
        .sort_by("row")
    )
    total_by_row = _spread(
        one_array(totals["row"]), one_array(totals["count_sum"]), len(histograms)
    )
    totals_filled = pc.fill_null(total_by_row, 0)
    base = _ends_before(totals_filled).take(row)
    total = totals_filled.take(row)
    rank = pc.divide(pc.add(pc.multiply(total, percent), 99), 100)
    seen = pc.subtract(upto, base)
    before = pc.subtract(seen, counts)
    is_there = pc.and_(pc.greater_equal(seen, rank), pc.less(before, rank))
    table = pa.table(
        {"row": row, "bucket": _keys(histograms), "total": total, "before": before, "count": counts}
    )
    return table.filter(is_there).combine_chunks()


def _maps(parents: pa.Array, buckets: pa.Array, counts: pa.Array, rows: int) -> pa.Array:
    """Histograms of entries, which are ordered by row."""
    sizes = (
        pa.table({"parent": pc.cast(parents, pa.int64())})
        .group_by("parent", use_threads=False)
        .aggregate([([], "count_all")])
        .sort_by("parent")
    )
    sized = _spread(one_array(sizes["parent"]), one_array(sizes["count_all"]), rows)
    ends = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int64()), pc.fill_null(sized, 0)]))
    made = pa.MapArray.from_arrays(pc.cast(ends, pa.int32()), buckets, counts)
    return made.cast(HISTOGRAM)


def _spread(rows: pa.Array, values: pa.Array, count: int) -> pa.Array:
    """An array of `count` with each value at its row, null elsewhere; rows are in order."""
    at = pc.index_in(pa.array(range(count), pa.int64()), pc.cast(rows, pa.int64()))
    return one_array(values).take(at)


def _ends_before(sizes: pa.Array) -> pa.Array:
    """The begin of each of successive parts, given their sizes."""
    sizes = pc.fill_null(pc.cast(sizes, pa.int64()), 0)
    return pc.subtract(pc.cumulative_sum(sizes), sizes)


def _entries(histograms: pa.Array) -> pa.Array:
    return histograms.cast(pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())])))


def _entry_parents(histograms: pa.Array) -> pa.Array:
    return pc.list_parent_indices(_entries(histograms))


def _keys(histograms: pa.Array) -> pa.Array:
    return _entries(histograms).flatten().field(0)


def _items(histograms: pa.Array) -> pa.Array:
    return _entries(histograms).flatten().field(1)
