"""The rollup's files: a day each, replaced whole, the same bytes for the same windows."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tests.support.metric_records import (
    START_MS,
    generated_group_records,
    generated_records,
    lag_windows_of,
    windows_of,
)

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.analytics.window_files import (
    GROUP_WINDOWS,
    LAG_WINDOWS,
    WINDOW_SCHEMA,
    InUse,
    days_of,
    read_windows,
    replace_windows,
    sole_writer,
)


def table(seed: int = 1, *, start_ms: int = START_MS, seconds: int = 90) -> pa.Table:
    rows = windows_of(generated_records(seed, seconds=seconds, start_ms=start_ms), 10)
    return pa.Table.from_pylist(rows, schema=WINDOW_SCHEMA)


def contents(output: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file()
    }


def test_what_was_written_is_read(tmp_path):
    windows = table()
    replace_windows(tmp_path, {"10s": windows, "1m": windows.slice(0, 3)})
    assert read_windows(tmp_path, "10s") == windows
    assert read_windows(tmp_path, "1m").num_rows == 3
    assert sorted(contents(tmp_path)) == [
        "width=10s/day=2026-09-21/day.parquet",
        "width=1m/day=2026-09-21/day.parquet",
    ]


def test_each_kind_has_a_folder_of_its_own(tmp_path):
    records = list(generated_group_records(1, seconds=60))
    replace_windows(tmp_path, {"10s": table()})
    for kind in (LAG_WINDOWS, GROUP_WINDOWS):
        rows = pa.Table.from_pylist(lag_windows_of(records, 10, kind.name), schema=kind.schema)
        replace_windows(tmp_path, {"10s": rows}, kind)
        assert read_windows(tmp_path, "10s", kind=kind) == rows
    assert read_windows(tmp_path, "10s") == table()
    assert sorted(contents(tmp_path)) == [
        "groups/width=10s/day=2026-09-21/day.parquet",
        "lag/width=10s/day=2026-09-21/day.parquet",
        "width=10s/day=2026-09-21/day.parquet",
    ]


def test_the_order_of_rows_does_not_change_the_bytes(tmp_path):
    windows = table()
    replace_windows(tmp_path / "a", {"10s": windows})
    backwards = windows.take(list(reversed(range(windows.num_rows))))
    replace_windows(tmp_path / "b", {"10s": backwards})
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_other_days_are_left_alone(tmp_path):
    first, second = table(1), table(2, start_ms=START_MS + 86_400_000)
    replace_windows(tmp_path, {"10s": pa.concat_tables([first, second])})
    before = contents(tmp_path)
    changed = table(3)
    replace_windows(tmp_path, {"10s": changed})
    after = contents(tmp_path)
    assert (
        after["width=10s/day=2026-09-22/day.parquet"]
        == before["width=10s/day=2026-09-22/day.parquet"]
    )
    assert read_windows(tmp_path, "10s", [date(2026, 9, 21)]) == changed
    assert read_windows(tmp_path, "10s", [date(2026, 9, 23)]).num_rows == 0


def test_a_failure_while_writing_leaves_the_old_files_whole(tmp_path, monkeypatch):
    replace_windows(tmp_path, {"10s": table(1), "1m": table(1)})
    before = contents(tmp_path)
    write = pq.write_table
    written: list[object] = []

    def second_fails(*args, **options):
        written.append(args)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(*args, **options)

    monkeypatch.setattr(pq, "write_table", second_fails)
    with pytest.raises(OSError, match="No space"):
        replace_windows(tmp_path, {"10s": table(2), "1m": table(2)})
    assert contents(tmp_path) == before


def test_drafts_of_a_killed_run_are_neither_read_nor_kept(tmp_path):
    replace_windows(tmp_path, {"10s": table(1)})
    draft = tmp_path / ".drafts" / "files" / "width=10s" / "day=2026-09-21" / "day.parquet"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"half")
    assert read_windows(tmp_path, "10s") == table(1)
    replace_windows(tmp_path, {"10s": table(2)})
    assert not draft.exists()
    assert read_windows(tmp_path, "10s") == table(2)


def test_days_of_a_span():
    first = datetime(2026, 9, 21, 23, 59, 50, tzinfo=UTC)
    last = datetime(2026, 9, 23, 0, 0, tzinfo=UTC)
    assert days_of(first, last) == (date(2026, 9, 21), date(2026, 9, 22), date(2026, 9, 23))
    assert days_of(first, first) == (date(2026, 9, 21),)


def test_a_second_writer_is_refused_until_the_first_has_ended(tmp_path):
    output = tmp_path / "new" / "rollup"
    with sole_writer(output), pytest.raises(InUse), sole_writer(output):
        pass
    with sole_writer(output):
        assert list(output.iterdir()) == []
