"""A directory of windows: readers see everything appended and merged exactly once."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

import pyarrow.parquet as pq

from cluster.analytics.windows import merge, merge_plans
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.directory import WindowDirectory, closed_until
from cluster.analytics.windows.kinds import LAG, QUOTA, WINDOW_KINDS
from cluster.analytics.windows.layout import MANIFEST, parsed
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.reading import days_by_width, read_windows
from cluster.analytics.windows.store import InUse, LocalStore
from cluster.analytics.windows.widths import WIDTHS_S
from tests.support.metric_records import START_MS, Record
from tests.support.reference_windows import assert_windows, every_kind
from tests.support.window_directories import (
    assert_plain,
    assert_read,
    merge_all,
    piece,
    plain_windows,
    reached,
    runner,
)

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
HOUR_END_MS = START_MS - START_MS % HOUR_MS + HOUR_MS
START = datetime.fromtimestamp(START_MS / 1000, UTC)


def opened(place: Path) -> WindowDirectory:
    return WindowDirectory.open(LocalStore(place))


def visible(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*.parquet")
        if parsed(path.relative_to(place).as_posix())
    }


def files(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def parts() -> list[list[Record]]:
    """Parts of several hours and days, with late ones among them."""
    return [
        every_kind(1, seconds=40),
        every_kind(2, seconds=30, start_ms=START_MS + 20_000),
        every_kind(3, seconds=30, start_ms=HOUR_END_MS - 15_000),
        every_kind(4, seconds=30, start_ms=START_MS + DAY_MS),
        every_kind(5, seconds=20, start_ms=START_MS + 5_000),
    ]


def test_appended_records_are_visible_immediately_and_merged_windows_to_all_readers(tmp_path):
    done: list[Record] = []
    with opened(tmp_path) as directory:
        for number, part in enumerate(parts()):
            added = directory.append([piece(directory, part)], reached(number + 1))
            done += part
            assert sum(added.counts.values()) == len(part)
            assert_read(tmp_path, done)
            if number != 1:
                merge_all(directory)
                assert_read(tmp_path, done)
                assert_plain(tmp_path, done)
        assert directory.manifest.progress == reached(5)
    assert not any(path.startswith(("_open", "_meta/drafts")) for path in files(tmp_path))


def test_widths_and_days_are_those_of_deltas_and_files(tmp_path):
    today, tomorrow = START.date(), START.date() + timedelta(days=1)
    assert days_by_width(tmp_path, QUOTA) == {key: [] for key in WIDTHS_S}
    assert read_windows(tmp_path, QUOTA, "10s").num_rows == 0
    with opened(tmp_path) as directory:
        records = every_kind(1, seconds=10)
        directory.append([piece(directory, records)], reached(1))
        merge_all(directory)
        both = every_kind(2, seconds=10, start_ms=START_MS + DAY_MS)
        lags = [each for each in both if each["kind"] == "lag"]
        directory.append([piece(directory, lags)], reached(2))
    assert days_by_width(tmp_path, LAG) == {key: [today, tomorrow] for key in WIDTHS_S}
    assert days_by_width(tmp_path, QUOTA) == {key: [today] for key in WIDTHS_S}


@pytest.mark.parametrize("is_merged", [True, False])
def test_reading_within_a_period_some_columns_of_some_windows(tmp_path, is_merged):
    import pyarrow.compute as pc

    records = every_kind(1, seconds=120)
    with opened(tmp_path) as directory:
        directory.append([piece(directory, records[::2])], reached(1))
        if is_merged:
            merge_all(directory)
        directory.append([piece(directory, records[1::2])], reached(2))
        if is_merged:
            merge_all(directory)
    since, until = START + timedelta(seconds=20), START + timedelta(seconds=50)
    for kind in WINDOW_KINDS:
        whole = read_windows(tmp_path, kind, "10s")
        found = read_windows(tmp_path, kind, "10s", since, until)
        starts = whole["window_start"]
        wanted = whole.filter(pc.and_(pc.greater_equal(starts, since), pc.less(starts, until)))
        assert found.equals(wanted)
        assert found.num_rows
        where = pc.field("records") > 3
        names = ["records", *kind.keys]
        some = read_windows(tmp_path, kind, "10s", since, until, names, where)
        assert some.equals(wanted.filter(pc.greater(wanted["records"], 3)).select(names))
        few = read_windows(tmp_path, kind, "10s", since, until, kind.keys, where)
        assert few.equals(some.select(kind.keys)), "the condition is about another column"
        coded = read_windows(tmp_path, kind, "10s", since, until, with_dictionaries=True)
        assert coded.cast(kind.schema).equals(wanted)
    day = START.replace(hour=0, minute=0, second=0)
    assert read_windows(tmp_path, QUOTA, "1d", since=START).num_rows == 0
    assert read_windows(tmp_path, QUOTA, "1d", since=day, until=START).num_rows
    assert read_windows(tmp_path, QUOTA, "1h", until=START - timedelta(hours=1)).num_rows == 0


@pytest.mark.no_cover
@pytest.mark.parametrize("width", WIDTHS_S)
def test_windows_of_any_period_are_whole(tmp_path, width):
    """Deltas that cannot have rows of the period are not read."""
    import pyarrow.compute as pc

    with opened(tmp_path) as directory:
        for number in range(8):
            start_ms = HOUR_END_MS - 60_000 + number * 15_000
            records = every_kind(number, seconds=20, start_ms=start_ms)
            directory.append([piece(directory, records)], reached(number))
            if number == 3:
                merge_all(directory)
    whole = read_windows(tmp_path, QUOTA, width)
    ends = [HOUR_END_MS // 1000 + seconds for seconds in (-3600, -60, -30, -10, 0, 5, 10, 60, 3600)]
    times = [datetime.fromtimestamp(seconds, UTC) for seconds in ends]
    for since, until in itertools.combinations(times, 2):
        starts = whole["window_start"]
        wanted = whole.filter(pc.and_(pc.greater_equal(starts, since), pc.less(starts, until)))
        assert read_windows(tmp_path, QUOTA, width, since, until).equals(wanted), (since, until)


@pytest.mark.no_cover
def test_the_same_records_give_the_same_bytes_in_however_many_parts(tmp_path):
    records = every_kind(1, seconds=60, start_ms=HOUR_END_MS - 30_000)
    with opened(tmp_path / "once") as once:
        once.append([piece(once, records)], reached(1))
        merge_all(once)
    shuffled = list(records)
    random.Random(1).shuffle(shuffled)
    with opened(tmp_path / "often") as often:
        for number in range(5):
            part = shuffled[number::5]
            pieces = [piece(often, part[::2], "0"), piece(often, part[1::2], "1")]
            often.append(pieces, reached(number))
            if number == 2:
                merge_all(often)
        merge_all(often)
    found = visible(tmp_path / "once")
    assert found == visible(tmp_path / "often")
    assert "kind=quota/width=1d/day=2026-09-21/day.parquet" in found


def test_a_large_hour_is_merged_in_slices_and_stays_in_them(tmp_path, monkeypatch):
    records = every_kind(1, seconds=240)
    rows = piece_rows = 0
    with opened(tmp_path) as directory:
        first = piece(directory, records[::2])
        piece_rows = first.deltas[0].rows
        monkeypatch.setattr(merge_plans, "UNIT_ROWS", piece_rows // 2)
        directory.append([first], reached(1))
        tasks = directory.merges(everything=True)
        assert [task.unit.minutes for task in tasks] == [30, 30]
        merge_all(directory)
        names = {parsed(path).unit for path in visible(tmp_path) if "width=10s" in path}
        assert names == {"14-00"}
        monkeypatch.undo()
        directory.append([piece(directory, records[1::2])], reached(2))
        assert len(directory.merges(everything=True)) == 2
        merge_all(directory)
    assert rows < piece_rows
    assert_read(tmp_path, records)
    assert_plain(tmp_path, records)


@pytest.mark.slow
def test_an_hour_that_grows_is_cut_further(tmp_path, monkeypatch):
    """A frequent rollup finds a few rows of an hour each time."""
    records = every_kind(1, seconds=240)
    with opened(tmp_path) as directory:
        sizes = []
        for number in range(4):
            found = piece(directory, records[number::4])
            monkeypatch.setattr(merge_plans, "UNIT_ROWS", found.deltas[0].rows)
            directory.append([found], reached(number))
            tasks = directory.merges(everything=True)
            sizes.append(len(tasks))
            assert all(len(task.visible) <= len(WINDOW_KINDS) for task in tasks)
            merge_all(directory)
            assert_plain(tmp_path, [each for at in range(number + 1) for each in records[at::4]])
        assert sizes[0] == 1
        assert sizes[-1] in (2, 3, 4, 6)
        hour = next(iter(directory.manifest.hours))
        assert directory.manifest.hours == {hour: sizes[-1]}
    assert_read(tmp_path, records)
    names = {parsed(path).unit for path in visible(tmp_path) if "width=1m" in path}
    assert names <= {f"14-{minute:02}" for minute in range(0, 60, 60 // sizes[-1])}


def test_hours_are_due_once_they_are_closed_and_late_ones_on_demand(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, every_kind(1, seconds=10))], reached(1))
        assert directory.merges() == []
        next_hour = every_kind(2, seconds=10, start_ms=START_MS + HOUR_MS)
        directory.append([piece(directory, next_hour)], reached(2))
        assert [task.unit.hour for task in directory.merges()] == [f"{START:%Y-%m-%dT%H}"]
        (merged,) = directory.merge(runner(directory.store))
        assert merged.units == 1
        assert merged.windows["lag"]["1d"] > 0
        assert directory.merges() == []
        late = every_kind(3, seconds=10)
        directory.append([piece(directory, late)], reached(3))
        assert directory.merges(with_late=False) == []
        assert len(directory.merges()) == 1
        assert len(directory.merges(watermark=timedelta(days=1))) == 0


def test_a_delta_of_two_hours_counts_until_both_are_merged(tmp_path):
    records = every_kind(1, seconds=60, start_ms=HOUR_END_MS - 30_000)
    with opened(tmp_path) as directory:
        directory.append([piece(directory, records)], reached(1))
        (first, second) = directory.merges(everything=True)
        for task in (first, second):
            results = runner(directory.store)([task])
            days = directory.day_merges([task], results)
            directory.merged([task, *days], [*results, *runner(directory.store)(days)])
            assert len(directory.manifest.deltas) == (task is first)
            assert_read(tmp_path, records)
    assert_plain(tmp_path, records)


def test_append_without_new_records_keeps_the_manifest(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, every_kind(1, seconds=10))], reached(1))
        before = directory.manifest
        added = directory.append([PieceResult([], {}, {}, lost=3)], reached(1))
        assert directory.manifest is before
        assert (added.lost, added.first) == (3, None)
        directory.append([], reached(2))
        assert directory.next_change == before.change + 2


def test_full_run_never_replaces_windows_by_fewer_records(tmp_path):
    records = every_kind(1, seconds=60)
    more = every_kind(2, seconds=30, start_ms=START_MS + DAY_MS)
    with opened(tmp_path) as directory:
        directory.append([piece(directory, records[::2])], reached(1))
        merge_all(directory)
        directory.append([piece(directory, records[1::2])], reached(2))
        left = [each for each in records if each["ts"] > START_MS + 23_000]
        read = [piece(directory, left, "0", ["late"]), piece(directory, more, "1")]
        tasks = directory.reread_merges(read)
        results = runner(directory.store)(tasks)
        days = directory.day_merges(tasks, results)
        directory.merged(
            [*tasks, *days],
            [*results, *runner(directory.store)(days)],
            progress=reached(9),
            read=read,
        )
        manifest = directory.manifest
        assert manifest.progress == reached(9)
        assert manifest.deltas == ()
        assert manifest.newest_s == START_MS // 1000 + 86_400 + 20
        assert [each.bytes for each in manifest.quarantined] == [5]
    assert_read(tmp_path, [*records, *more])
    assert_plain(tmp_path, [*records, *more])


def test_windows_are_forgotten_by_width_and_late_records_still_count_in_wider_ones(tmp_path):
    old, new = every_kind(1, seconds=60), every_kind(2, seconds=60, start_ms=START_MS + 9 * DAY_MS)
    late = every_kind(3, seconds=30)
    today = START.date() + timedelta(days=10)
    keep = {"10s": timedelta(days=3), "1m": timedelta(days=5), "1h": timedelta(days=20)}
    with opened(tmp_path) as directory:
        directory.append([piece(directory, [*old, *new], quarantined=["x"])], reached(1))
        merge_all(directory)
        with pytest.raises(ValueError, match="at least as long"):
            directory.forget({"10s": timedelta(days=5), "1m": timedelta(days=3)}, today)
        assert directory.forget({"10s": timedelta(days=11)}, today) == 0
        assert directory.forget(keep, today) == 2 * len(WINDOW_KINDS)
        directory.append([piece(directory, late)], reached(2))
        for _ in range(2):
            for kind in WINDOW_KINDS:
                for width, width_s in {"10s": 10, "1m": 60}.items():
                    assert_windows(read_windows(tmp_path, kind, width), new, kind, width_s)
                for width, width_s in {"1h": 3600, "1d": 86_400}.items():
                    everything = [*old, *late, *new]
                    assert_windows(read_windows(tmp_path, kind, width), everything, kind, width_s)
            merge_all(directory)
            assert directory.manifest.deltas == ()
        assert_windows(plain_windows(tmp_path, LAG, "10s"), new, LAG, 10)
        assert_windows(plain_windows(tmp_path, LAG, "1h"), [*old, *late, *new], LAG, 3600)
        short = dict.fromkeys(("10s", "1m", "1h", "1d"), timedelta(days=5))
        assert directory.forget(short, today) == 2 * len(WINDOW_KINDS)
        directory.append([piece(directory, late)], reached(3))
        assert directory.manifest.deltas == ()
        directory.forget(short, today + timedelta(days=365))
        assert files(tmp_path) == {MANIFEST}


def test_windows_that_are_forgotten_while_their_hour_is_merged(tmp_path):
    """A following rollup merges an hour over several batches."""
    old, late = every_kind(1, seconds=60), every_kind(3, seconds=30)
    today = START.date() + timedelta(days=10)
    with opened(tmp_path) as directory:
        directory.append([piece(directory, old)], reached(1))
        merge_all(directory)
        directory.append([piece(directory, late)], reached(2))
        tasks = directory.merges(everything=True)
        results = [merge.merge_in(directory.store, task) for task in tasks]
        directory.forget({"10s": timedelta(days=5)}, today)
        days = directory.day_merges(tasks, results)
        results += [merge.merge_in(directory.store, task) for task in days]
        directory.merged([*tasks, *days], results)
        assert directory.manifest.deltas == ()
    for kind in WINDOW_KINDS:
        assert plain_windows(tmp_path, kind, "10s").num_rows == 0
        for width, width_s in {"1m": 60, "1h": 3600, "1d": 86_400}.items():
            assert_windows(plain_windows(tmp_path, kind, width), [*old, *late], kind, width_s)


def test_a_day_is_kept_until_all_of_the_time_has_passed(tmp_path):
    records = every_kind(1, seconds=10)
    ended = START.date() + timedelta(days=1)
    with opened(tmp_path) as directory:
        directory.append([piece(directory, records)], reached(1))
        merge_all(directory)
        for span, days in ((timedelta(hours=12), 1), (timedelta(hours=36), 2)):
            keep = dict.fromkeys(("10s", "1m", "1h", "1d"), span)
            assert directory.forget(keep, ended + timedelta(days=days - 1)) == 0
        assert directory.forget(keep, ended + timedelta(days=2)) == 4 * len(WINDOW_KINDS)


def test_a_width_that_is_kept_between(tmp_path):
    """Windows of 1 min are added to when those of 10 s are gone, and of 1 d when 1 h are."""
    old, late = every_kind(1, seconds=90), every_kind(2, seconds=30, start_ms=START_MS + HOUR_MS)
    also_late = every_kind(3, seconds=30)
    today = START.date() + timedelta(days=10)
    short, long = timedelta(days=3), timedelta(days=30)
    with opened(tmp_path) as directory:
        directory.append([piece(directory, old)], reached(1))
        merge_all(directory)
        directory.forget({"10s": short}, today)
        directory.append([piece(directory, [*late, *also_late])], reached(2))
        merge_all(directory)
        done = [*old, *late, *also_late]
        for kind in WINDOW_KINDS:
            assert read_windows(tmp_path, kind, "10s").num_rows == 0
            for width, width_s in {"1m": 60, "1h": 3600, "1d": 86_400}.items():
                assert_windows(plain_windows(tmp_path, kind, width), done, kind, width_s)
        directory.forget({"10s": short, "1m": short, "1h": short, "1d": long}, today)
        directory.append([piece(directory, late)], reached(3))
        merge_all(directory)
        for kind in WINDOW_KINDS:
            found = read_windows(tmp_path, kind, "1d")
            assert_windows(found, [*done, *late], kind, 86_400)
            assert read_windows(tmp_path, kind, "1h").num_rows == 0


def test_open_removes_unnamed_files_and_keeps_foreign_ones(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, every_kind(1, seconds=10))], reached(1))
        piece(directory, every_kind(2, seconds=10))
        kept = files(tmp_path) - {"_open/2-0.parquet"}
    left = (
        "_meta/.manifest.json.0a",
        "_meta/days/x",
        "_meta/drafts/9/a",
        "_meta/aside/x",
        "_open/y",
    )
    foreign = ("_meta/checkpoint/a", "notes.txt", "kind=lag/x")
    for name in (*left, *foreign):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    opened(tmp_path).close()
    assert files(tmp_path) == kept | set(foreign)


def test_only_one_process_may_have_it_open(tmp_path):
    with opened(tmp_path), pytest.raises(InUse):
        opened(tmp_path)
    opened(tmp_path).close()


def test_files_have_notes_and_sorted_rows(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, every_kind(1, seconds=60))], reached(1))
        merge_all(directory)
    for path in visible(tmp_path):
        file = pq.ParquetFile(tmp_path / path)
        notes = file.metadata.metadata
        assert notes[b"milena.schema"] == b"2"
        assert notes[b"milena.cluster"] == b"cluster-id"
        assert notes[b"milena.units"] in (b'["2026-09-21T14",0,60]', b'["2026-09-21"]')
        kind = next(each for each in WINDOW_KINDS if f"kind={each.name}/" in path)
        table = file.read()
        assert table.equals(table.sort_by([(name, "ascending") for name in kind.key_names]))


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def foreign(path: Path) -> None:
    import pyarrow as pa

    pq.write_table(pa.table({"a": [1]}), path)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (Path.unlink, "is missing"),
        (damaged, "is damaged"),
        (foreign, "was not written by the rollup"),
    ],
)
@pytest.mark.parametrize("pattern", ["kind=lag/width=*/*/*.parquet", "_open/*.parquet"])
def test_bad_file_is_reported_in_one_line(tmp_path, spoil, says, pattern):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, every_kind(1, seconds=20))], reached(1))
        merge_all(directory)
        directory.append([piece(directory, every_kind(2, seconds=20))], reached(2))
        before = visible(tmp_path)
        for path in sorted(tmp_path.glob(pattern)):
            kept = path.read_bytes()
            spoil(path)
            name = path.relative_to(tmp_path).as_posix()
            width = parsed(name).width if parsed(name) else "1h"
            with pytest.raises(UnusableDirectory, match=says) as found:
                read_windows(tmp_path, LAG, width)
            assert name in str(found.value)
            assert "\n" not in str(found.value)
            if width != "1m" and width != "1d":  # which writers make of narrower ones
                with pytest.raises(UnusableDirectory, match=says) as found:
                    merge_all(directory)
                assert name in str(found.value)
            path.write_bytes(kept)
        assert visible(tmp_path) == before
        merge_all(directory)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is damaged"),
        ("[]", "is damaged"),
        ("{}", "is damaged"),
        ('{"version": 2}', "is damaged"),
        ('{"version": 3}', "is of version 3, and this software knows 2"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(tmp_path, text, says):
    (tmp_path / "_meta").mkdir()
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UnusableDirectory, match=says):
        opened(tmp_path)
    with pytest.raises(UnusableDirectory, match=says):
        read_windows(tmp_path, QUOTA, "10s")
    assert (tmp_path / MANIFEST).read_text() == text


def test_a_list_of_a_day_that_is_gone_or_damaged(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, every_kind(1, seconds=20))], reached(1))
        merge_all(directory)
    (listed,) = (tmp_path / "_meta" / "days").iterdir()
    for content, says in ((b"{", "is damaged"), (None, "is missing")):
        listed.unlink()
        if content is not None:
            listed.write_bytes(content)
        with pytest.raises(UnusableDirectory, match=says):
            read_windows(tmp_path, QUOTA, "1h")


def test_a_directory_of_the_earlier_version_is_for_a_writer_first(tmp_path):
    (tmp_path / "progress.json").write_text("{}")
    with pytest.raises(UnusableDirectory, match="earlier version: run `rollup` once"):
        read_windows(tmp_path, QUOTA, "1h")


def test_windows_are_closed_by_the_newest():
    assert closed_until(None, timedelta(minutes=1)) is None
    assert closed_until(120, timedelta(minutes=1)) == datetime.fromtimestamp(60, UTC)
    assert closed_until(120, timedelta(seconds=61)) == datetime.fromtimestamp(60, UTC)


def test_an_hour_that_is_added_up_part_by_part_gives_the_same_bytes(tmp_path, monkeypatch):
    records = every_kind(1, seconds=160)
    for name, rows in (("whole", 10**9), ("parts", 100)):
        monkeypatch.setattr(merge, "PART_ROWS", rows)
        with opened(tmp_path / name) as directory:
            for number, part in enumerate((records[::2], records[1::2])):
                directory.append([piece(directory, part)], reached(number))
                merge_all(directory)
        assert_read(tmp_path / name, records)
    assert visible(tmp_path / "whole") == visible(tmp_path / "parts")


def test_windows_without_a_manifest_are_left_as_they_are(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, parts()[0])], reached(1))
        merge_all(directory)
    (tmp_path / MANIFEST).unlink()
    before = visible(tmp_path)
    with pytest.raises(
        UnusableDirectory, match=r"has windows and no _meta/manifest\.json, .* copy"
    ):
        opened(tmp_path)
    assert visible(tmp_path) == before


def test_a_file_that_was_removed_after_its_change_is_named(tmp_path):
    with opened(tmp_path) as directory:
        directory.append([piece(directory, parts()[0])], reached(1))
        merge_all(directory)
    gone = sorted(visible(tmp_path))[0]
    (tmp_path / gone).unlink()
    with pytest.raises(UnusableDirectory, match=rf"{tmp_path / gone} is missing: restore it"):
        opened(tmp_path)
