"""Compares the rollup's windows with a reference in plain Python. Needs pyarrow."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from cluster.analytics.window_files import QUOTA_WINDOWS, WIDTHS_S, WINDOW_KINDS, read_windows
from tests.support.metric_records import Record, lag_windows_of, windows_of


def assert_windows_of(output: Path, records: Sequence[Record]) -> None:
    """The windows of every kind and width are those of these records, and no others."""
    for kind in WINDOW_KINDS:
        for width, width_s in WIDTHS_S.items():
            rows = (
                windows_of(records, width_s)
                if kind is QUOTA_WINDOWS
                else lag_windows_of(records, width_s, kind.name)
            )
            found = read_windows(output, width, kind=kind)
            assert found == pa.Table.from_pylist(rows, schema=kind.schema), (kind.name, width)
