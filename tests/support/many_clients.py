"""Windows of more clients than records could be made of one by one."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows import histogram
from cluster.analytics.windows.deltas import PieceResult, write_delta
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import QUOTA, SUMS_SCHEMA, TIMESTAMP
from cluster.analytics.windows.layout import delta_path
from cluster.analytics.windows.manifest import Progress
from cluster.analytics.windows.merge import run_merge
from cluster.analytics.windows.store import LocalStore

LIMIT = 1e6
_WINDOWS_AT_ONCE = 10


def write_windows(place: Path, clients: int, start_s: int, offsets_s: Sequence[int]) -> None:
    """A directory in which `client-000000` and so on have a narrowest window at each offset from
    the start, of one record each. One in ten is throttled."""
    ids = pa.array([f"client-{number:06}" for number in range(clients)])
    with WindowDirectory.open(LocalStore(place)) as directory:
        for first in range(0, len(offsets_s), _WINDOWS_AT_ONCE):
            offsets = offsets_s[first : first + _WINDOWS_AT_ONCE]
            table = pa.concat_tables([_sums(ids, start_s + offset) for offset in offsets])
            path = delta_path(directory.next_change, "0")
            delta = write_delta(directory.store, path, {QUOTA.name: table})
            assert delta is not None
            progress = Progress("metrics", "topic-id", {0: first + 1}, "cluster-id")
            directory.append([PieceResult([delta], {}, {})], progress)
        directory.merge(
            lambda tasks: [run_merge(str(place), task) for task in tasks], everything=True
        )


def _sums(ids: pa.Array, start_s: int) -> pa.Table:
    """A narrowest window of each client, of one metric record."""
    count = len(ids)
    schema = pa.schema([SUMS_SCHEMA.field(name) for name in QUOTA.sum_names])
    rates = pc.multiply(pc.random(count), 2 * LIMIT)
    is_over = pc.greater(rates, LIMIT * 1.8)
    throttle_ms = pc.if_else(is_over, pc.subtract(rates, LIMIT * 1.8), 0.0)
    exact = SUMS_SCHEMA.field("usage_exact").type
    over = pc.cast(is_over, pa.int64())
    columns = {
        "window_start": _constant(start_s * 1_000_000, pa.int64(), count).cast(TIMESTAMP),
        "broker": pa.array([number % 3 for number in range(count)], pa.int32()),
        "user": _constant("ANONYMOUS", pa.string(), count),
        "client_id": ids,
        "quota": _constant("produce", pa.string(), count),
        "rule": _constant("default-client", pa.string(), count),
        "limit": _constant(LIMIT, pa.float64(), count),
        "usage_exact": pc.cast(pc.round(rates, 3), exact, safe=False),
        "throttle_ms_exact": pc.cast(pc.round(throttle_ms, 3), exact, safe=False),
        "muted_ms_exact": pc.cast(pc.round(throttle_ms, 3), exact, safe=False),
        "rate_max": rates,
        "throttle_ms_max": throttle_ms,
        "requests": _constant(20, pa.int64(), count),
        "throttled": over,
        "seconds_over_limit": over,
        "seconds_throttled": over,
        "covered_ms": _constant(1000, pa.int64(), count),
        "records": _constant(1, pa.int64(), count),
        "histogram": histogram.singles(histogram.rate_codes(pa.chunked_array([rates]))),
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _constant(value: object, kind: pa.DataType, count: int) -> pa.Array:
    """The value so many times."""
    return pa.repeat(pa.scalar(value, kind), count)
