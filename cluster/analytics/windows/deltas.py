"""Deltas: files of sums of the narrowest windows, of all kinds, which wait to be merged."""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.kinds import SUMS_SCHEMA, WINDOW_KINDS, WindowKind
from cluster.analytics.windows.layout import HOUR_S, hour_of
from cluster.analytics.windows.manifest import DeltaFile, delta_from_json
from cluster.analytics.windows.parquet_files import between, opened, written_file
from cluster.analytics.windows.store import Store
from cluster.analytics.windows.window_sums import Sums

_MILLION: Final = 1_000_000


class PieceResult(NamedTuple):
    """The result of one range of records; small, to be passed on as JSON."""

    deltas: list[DeltaFile]
    counts: dict[str, int]
    """Records by kind."""
    rejected: dict[str, int]
    """Records that are in no window, by reason."""
    late: int = 0
    """Records of closed windows."""
    lost: int = 0
    """Records that retention removed before they were read."""
    quarantined: Sequence[str] = ()
    """Lines about records in quarantine."""

    def as_json(self) -> str:
        """The result as text."""
        return json.dumps(self._asdict() | {"deltas": [delta._asdict() for delta in self.deltas]})

    @classmethod
    def from_json(cls, text: str) -> "PieceResult":
        """The result in a text of `as_json`."""
        found = json.loads(text)
        return cls(**(found | {"deltas": [delta_from_json(each) for each in found["deltas"]]}))


def write_delta(store: Store, path: str, sums: Sums) -> DeltaFile | None:
    """Write sums of the narrowest windows, hour by hour; None without any.

    The file counts once `WindowDirectory.append` names it. Raises UnusableDirectory.
    """
    tables = [(kind, sums[kind.name]) for kind in WINDOW_KINDS if kind.name in sums]
    tables = [(kind, table) for kind, table in tables if table.num_rows]
    if not tables:
        return None
    spans = [pc.min_max(_seconds(table)).as_py() for _, table in tables]
    hours: dict[str, int] = {}
    with written_file(store, path, SUMS_SCHEMA, {}) as (writer, size):
        for begin_s in _hours(table for _, table in tables):
            for kind, table in tables:
                found = between(table, begin_s, begin_s + HOUR_S)
                if found.num_rows:
                    hour = hour_of(begin_s)
                    hours[hour] = hours.get(hour, 0) + found.num_rows
                    writer.write(found, kind=kind.name)
    return DeltaFile(
        path,
        writer.rows,
        size.bytes,
        min(span["min"] for span in spans),
        max(span["max"] for span in spans),
        hours,
        tuple(kind.name for kind, _ in tables),
    )


def read_delta(
    store: Store,
    path: str,
    begin_s: int | None = None,
    end_s: int | None = None,
    kinds: Sequence[WindowKind] = WINDOW_KINDS,
) -> dict[str, pa.Table]:
    """The sums of these kinds of windows that begin in [begin_s, end_s), not added up.

    Raises UnusableDirectory, and MissingFile (one of those) if the file is missing.
    """
    wanted = ["kind", *dict.fromkeys(name for kind in kinds for name in kind.sum_names)]
    with opened(store, path) as file:
        table = file.read(wanted, begin_s, end_s)
        found = {}
        for kind in kinds:
            of_kind = table.filter(pc.equal(table["kind"], kind.name)).select(kind.sum_names)
            if of_kind.num_rows:
                found[kind.name] = of_kind
        return found


def _seconds(table: pa.Table) -> pa.ChunkedArray:
    return pc.divide(pc.cast(table["window_start"], pa.int64()), _MILLION)


def _hours(tables: Iterable[pa.Table]) -> list[int]:
    """The hours of windows in order, by the second in which they begin."""
    found: set[int] = set()
    for table in tables:
        found.update(pc.unique(pc.divide(_seconds(table), HOUR_S)).to_pylist())
    return [number * HOUR_S for number in sorted(found)]
