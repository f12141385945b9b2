"""Writes directories of windows as version 1 left them. Needs pyarrow."""

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.analytics.windows.kinds import GROUP, LAG, QUOTA, STATES, WindowKind
from tests.support.metric_records import Record
from tests.support.reference_windows import reference_windows

WIDTHS_S = {"10s": 10, "1m": 60, "1h": 3600}
FOLDERS = {QUOTA: "", GROUP: "groups/", LAG: "lag/"}
_TIME = pa.timestamp("us", tz="UTC")
_SCHEMAS = {
    QUOTA: pa.schema(
        [
            ("window_start", _TIME),
            ("broker", pa.int32()),
            *((name, pa.string()) for name in ("user", "client_id", "quota", "rule")),
            *((name, pa.float64()) for name in ("limit", "usage_sum", "rate_avg", "rate_max")),
            *((name, pa.float64()) for name in ("rate_p95", "utilization")),
            *((name, pa.int64()) for name in ("requests", "throttled")),
            *((name, pa.float64()) for name in ("throttle_ms_sum", "throttle_ms_max")),
            ("muted_ms_sum", pa.float64()),
            *((name, pa.int64()) for name in ("seconds_over_limit", "seconds_throttled")),
            ("records", pa.int64()),
        ]
    ),
    GROUP: pa.schema(
        [
            ("window_start", _TIME),
            ("group", pa.string()),
            ("members_max", pa.int64()),
            ("lag_avg", pa.float64()),
            *((name, pa.int64()) for name in ("lag_max", "lag_last", "lag_sum")),
            *((name, pa.int64()) for name in STATES.values()),
            ("records", pa.int64()),
        ]
    ),
    LAG: pa.schema(
        [
            ("window_start", _TIME),
            *((name, pa.string()) for name in ("group", "topic")),
            ("partition", pa.int32()),
            ("lag_avg", pa.float64()),
            *((name, pa.int64()) for name in ("lag_max", "lag_last", "lag_sum")),
            *((name, pa.int64()) for name in ("log_end_max", "committed_max", "records")),
        ]
    ),
}
_MORE = {QUOTA: ("rates", pa.list_(pa.float32())), GROUP: ("lag_last_at", _TIME)}
_MORE[LAG] = _MORE[GROUP]


def write_windows(
    place: Path,
    records: Sequence[Record],
    piece: str,
    *,
    widths: Iterable[str] = tuple(WIDTHS_S),
    has_more: bool = True,
) -> None:
    """Write the windows of records, all of one day, to files `day=DAY/PIECE.parquet`, or to
    `DAY.parquet` for the piece ``""``, of early versions.

    With `has_more`, those of 10 s have what wider ones are made of.
    """
    for kind, schema in _SCHEMAS.items():
        for width in widths:
            rows = _rows(records, kind, width)
            if not rows:
                continue
            day = rows[0]["window_start"].date().isoformat()
            name = f"day={day}/{piece}" if piece else day
            path = place / f"{FOLDERS[kind]}width={width}" / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            stored = [*schema, _MORE[kind]] if has_more and width == "10s" else [*schema]
            pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(stored)), path)


def write_progress(place: Path, offset: int, newest_s: int, changes: int = 7) -> None:
    """Write how far the windows reach in a topic of one partition."""
    document = {
        "version": 1,
        "topic": "metrics",
        "topic_id": "topic-id",
        "offsets": {"0": offset},
        "changes": changes,
        "newest_window": newest_s,
    }
    (place / "progress.json").write_text(json.dumps(document))


def _rows(records: Sequence[Record], kind: WindowKind, width: str) -> list[dict[str, Any]]:
    rates = defaultdict(list)
    for record in records:
        if record["kind"] == "quota" == kind.name:
            began_s = (record["ts"] - record["interval_ms"]) // 1000
            start = datetime.fromtimestamp(began_s - began_s % WIDTHS_S[width], UTC)
            (single,) = struct.unpack("<f", struct.pack("<f", record["rate"]))
            rates[start, *(record[name] for name in kind.keys)].append(single)
    rows = []
    for row in reference_windows(records, kind, WIDTHS_S[width]):
        if kind is QUOTA:
            found = sorted(rates[tuple(row[name] for name in kind.key_names)])
            row |= {"rates": found, "rate_p95": found[-(-95 * len(found) // 100) - 1]}
        else:
            row |= {"lag_sum": int(row["lag_sum"]), "lag_last_at": row["last_at"]}
        rows.append(row)
    return rows
