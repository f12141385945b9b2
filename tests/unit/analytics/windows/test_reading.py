"""Reading a directory of windows of which a part waits in deltas."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import QUOTA, WINDOW_KINDS
from cluster.analytics.windows.reading import read_windows, split_windows
from cluster.analytics.windows.store import LocalStore
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.metric_records import START_MS
from tests.support.reference_windows import every_kind
from tests.support.window_directories import merge_all, piece, reached

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Three hours: one merged, one merged but with more records in deltas, one in deltas alone."""
    place = tmp_path_factory.mktemp("rollup")
    with WindowDirectory.open(LocalStore(place)) as directory:
        for number, hours in enumerate(((0, 1), (1, 2))):
            records = [
                record
                for hour in hours
                for record in every_kind(
                    number + hour, seconds=20, start_ms=START_MS + hour * HOUR_MS
                )
            ]
            directory.append([piece(directory, records)], reached(number))
            if number == 0:
                merge_all(directory)
    return place


@pytest.mark.no_cover
@pytest.mark.parametrize("width", WIDTHS_S)
def test_each_column_alone_is_as_in_the_whole(place, width):
    """Less is added up for open hours if histograms are not needed."""
    for kind in WINDOW_KINDS:
        whole = read_windows(place, kind, width)
        for name in kind.names:
            assert read_windows(place, kind, width, columns=[name]).equals(whole.select([name]))


def test_texts_as_dictionaries(place):
    for kind in WINDOW_KINDS:
        for width in WIDTHS_S:
            found = read_windows(place, kind, width, with_dictionaries=True)
            assert found.cast(kind.schema).equals(read_windows(place, kind, width))
            texts = [field.name for field in kind.schema if pa.types.is_string(field.type)]
            assert all(pa.types.is_dictionary(found.schema.field(name).type) for name in texts)


def test_visible_files_and_the_rest_are_all_windows(place):
    found = split_windows(place, QUOTA, QUOTA.names)
    visible = [
        pq.ParquetFile(place / path).read().select(QUOTA.names).cast(QUOTA.schema)
        for path in found.paths
    ]
    assert len(visible) == 1
    assert len(found.others) == 2
    together = pa.concat_tables([*visible, *found.others])
    order = [(name, "ascending") for name in QUOTA.key_names]
    assert together.sort_by(order).equals(read_windows(place, QUOTA, "10s"))
