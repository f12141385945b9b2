"""Windows and how far they reach change together, whatever step a crash comes after."""

import json
import os
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tests.support.metric_records import (
    START_MS,
    Record,
    generated_group_records,
    generated_records,
    windows_of,
)

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa

from cluster.analytics import rollup_output
from cluster.analytics.file_changes import FileChanges
from cluster.analytics.metric_rows import count_row, rows_of
from cluster.analytics.rollup_output import Progress, RollupOutput, UnknownProgress
from cluster.analytics.window_files import (
    GROUP_WINDOWS,
    LAG_WINDOWS,
    QUOTA_WINDOWS,
    WIDTHS_S,
    WINDOW_KINDS,
    paths_of_day,
    read_windows,
)
from cluster.analytics.window_sums import sums_of_rows
from tests.support.plain_windows import assert_windows_of

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class Killed(BaseException):
    """Stands for kill -9: nothing in the product catches it to go on."""


def sums(records: list[Record], aside: tuple[str, ...] = ()) -> pa.Table:
    rows = rows_of([json.dumps(record).encode() for record in records])
    if aside:
        rows.append(count_row("rejected", len(aside), aside))
    return sums_of_rows(rows)


def reached(offset: int) -> Progress:
    return Progress("metrics", "id", {0: offset})


def made(seed: int, start_ms: int = START_MS, seconds: int = 30) -> list[Record]:
    return [
        *generated_records(seed, seconds=seconds, start_ms=start_ms),
        *generated_group_records(seed, seconds=seconds, start_ms=start_ms, groups=1),
    ]


def files(output: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file()
    }


STEPS: dict[str, tuple[object, str]] = {
    "a draft is put in place or decided on": (Path, "replace"),
    "a file is made to last": (os, "fsync"),
    "a file is removed": (Path, "unlink"),
}


def killed_at(monkeypatch: pytest.MonkeyPatch, target: object, name: str, number: int) -> None:
    """Let the call of this number raise in place of doing anything, as does everything after."""
    real: Callable[..., object] = getattr(target, name)
    calls = 0

    def counted(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls >= number:
            raise Killed
        return real(*args, **options)

    monkeypatch.setattr(target, name, counted)


@pytest.mark.parametrize(("target", "name"), STEPS.values(), ids=STEPS)
def test_a_crash_at_any_step_loses_and_doubles_nothing(tmp_path, monkeypatch, target, name):
    """A run that is killed is followed by one that begins where the stored progress says."""
    parts = [made(1), made(2, START_MS + 15_000), made(3, START_MS + DAY_MS), made(4)]
    done: list[Record] = []
    for number, part in enumerate(parts):
        dice = random.Random(number)
        for _ in range(3):
            output = RollupOutput(tmp_path)
            if output.progress is not None and output.progress.offsets[0] > number:
                break  # the killed run had come past the decision
            with monkeypatch.context() as patched:
                killed_at(patched, target, name, dice.randrange(1, 20))
                try:
                    output.add(sums(part), reached(number + 1))
                    output.compact()
                except Killed:
                    continue
        output = RollupOutput(tmp_path)
        if output.progress is None or output.progress.offsets[0] == number:
            output.add(sums(part), reached(number + 1))
        done += part
        assert_windows_of(tmp_path, done)
    output.compact()
    assert_windows_of(tmp_path, done)


def test_hours_become_a_day_once_a_newer_day_is_there(tmp_path):
    """And what comes for that day afterwards is added to its file."""
    output = RollupOutput(tmp_path)
    first = [*made(1), *made(2, START_MS + 2 * HOUR_MS)]
    output.add(sums(first), reached(1))
    day = datetime.fromtimestamp(START_MS / 1000, UTC).date()
    names = [path.name for path in paths_of_day(tmp_path, LAG_WINDOWS, "1m", day)]
    assert names == ["14.parquet", "16.parquet"]
    assert output.compact() == 0
    second = made(3, START_MS + DAY_MS)
    output.add(sums(second), reached(2))
    assert output.compact() == 2 * len(WINDOW_KINDS) * len(WIDTHS_S)
    assert [path.name for path in paths_of_day(tmp_path, GROUP_WINDOWS, "10s", day)] == [
        "day.parquet"
    ]
    assert_windows_of(tmp_path, [*first, *second])
    late = made(4, START_MS + 5_000)
    added = output.add(sums(late), reached(3))
    windows = sum(record["kind"] != "broker" for record in late)
    assert added.late == windows
    assert_windows_of(tmp_path, [*first, *second, *late])


def test_hours_that_are_in_the_file_of_the_day_too_count_once(tmp_path):
    """A crash may leave them for a while."""
    output = RollupOutput(tmp_path)
    records = made(1)
    output.add(sums(records), reached(1))
    day = datetime.fromtimestamp(START_MS / 1000, UTC).date()
    (hour,) = paths_of_day(tmp_path, QUOTA_WINDOWS, "10s", day)
    (hour.parent / "day.parquet").write_bytes(hour.read_bytes())
    assert read_windows(tmp_path, "10s").num_rows == len(windows_of(records, 10))


def test_the_same_records_in_other_parts_give_the_same_files(tmp_path):
    records = made(1, seconds=60)
    once, twice = RollupOutput(tmp_path / "once"), RollupOutput(tmp_path / "twice")
    once.add(sums(records), reached(1))
    for part in (records[1::2], records[::2]):
        twice.add(sums(part), reached(1))
    left, right = files(tmp_path / "once"), files(tmp_path / "twice")
    for each in (left, right):
        del each["progress.json"]
    assert left == right


def test_computing_anew_replaces_nothing_by_less(tmp_path):
    records = made(1, seconds=60)
    output = RollupOutput(tmp_path)
    output.add(sums(records), reached(1))
    left = [record for record in records if record["ts"] > START_MS + 23_000]
    with output.computed_anew() as anew:
        for part in (left[:500], left[500:]):
            anew.add(sums(part), reached(1))
        output.take_over(anew)
    assert_windows_of(tmp_path, records)


def test_what_was_computed_anew_goes_into_days_and_hours_alike(tmp_path):
    """The stored ones may lie otherwise: a day that is over is one file."""
    first, second = made(1, seconds=60), made(2, START_MS + DAY_MS)
    output = RollupOutput(tmp_path)
    output.add(sums(first), reached(1))
    output.add(sums(second), reached(2))
    output.compact()
    left = [record for record in first if record["ts"] > START_MS + 23_000]
    more = made(3, START_MS + HOUR_MS)
    before = set(files(tmp_path))
    with output.computed_anew() as anew:
        anew.add(sums([*left, *more], ('{"offset": 3}',)), reached(3))
        anew.add(sums(second, ('{"offset": 4}',)), reached(4))
        output.take_over(anew)
    assert_windows_of(tmp_path, [*first, *more, *second])
    assert output.progress == RollupOutput(tmp_path).progress
    assert output.progress is not None
    assert (output.progress.offsets, output.progress.changes) == ({0: 4}, 3)
    assert set(files(tmp_path)) == before | {"aside/00000003.jsonl"}
    assert (tmp_path / "aside" / "00000003.jsonl").read_text() == '{"offset": 3}\n{"offset": 4}\n'


def test_what_a_killed_process_computed_anew_is_forgotten(tmp_path):
    records = made(1)
    output = RollupOutput(tmp_path)
    output.add(sums(records), reached(1))
    RollupOutput(tmp_path / ".anew").add(sums(made(2)), reached(2))
    with output.computed_anew() as anew:
        anew.add(sums(records), reached(2))
        output.take_over(anew)
    assert_windows_of(tmp_path, records)
    assert not (tmp_path / ".anew").exists()


def test_what_is_put_aside_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(rollup_output, "ASIDE_BYTES", 250)
    output = RollupOutput(tmp_path)
    for number in range(4):
        output.add(sums([], ("x" * 99,)), reached(number))
    assert sum(path.stat().st_size for path in (tmp_path / "aside").iterdir()) == 200
    output.add(sums([], tuple(letter * 99 for letter in "abc")), reached(5))
    (only,) = (tmp_path / "aside").iterdir()
    assert only.read_text() == f"{'a' * 99}\n{'b' * 99}\n"


def test_what_is_put_aside_bit_by_bit_is_in_few_files_of_a_day_each(tmp_path, monkeypatch):
    """A rollup that follows may put something aside with every change."""
    monkeypatch.setattr(rollup_output, "_ASIDE_SMALL", 1_000)
    output = RollupOutput(tmp_path)
    for number in range(30):
        output.add(sums([], (f"{number:099}",)), reached(number))
        if number == 14:
            (last,) = sorted((tmp_path / "aside").iterdir())[-1:]
            os.utime(last, (1, 1))
    kept = sorted((tmp_path / "aside").iterdir())
    assert len(kept) == 4
    lines = [line for path in kept for line in path.read_text().splitlines()]
    assert lines == [f"{number:099}" for number in range(30)]
    output.forget(date(2026, 9, 21))
    assert not last.exists(), "its lines are of that day only"
    assert len(list((tmp_path / "aside").iterdir())) == 3


def test_days_are_forgotten_on_demand_alone(tmp_path):
    output = RollupOutput(tmp_path)
    kept = made(2, START_MS + DAY_MS)
    output.add(sums(made(1), ("bad",)), reached(1))
    output.add(sums(kept), reached(2))
    os.utime(tmp_path / "aside" / "00000001.jsonl", (1, 1))
    assert output.forget(date(2026, 9, 21)) == 1
    assert output.forget(date(2026, 9, 22)) == len(WINDOW_KINDS) * len(WIDTHS_S)
    assert_windows_of(tmp_path, kept)
    assert not (tmp_path / "aside").exists()
    assert RollupOutput(tmp_path).progress is not None


def test_progress_is_what_was_added(tmp_path):
    output = RollupOutput(tmp_path)
    assert output.progress is None
    output.add(sums(made(1), ('{"offset": 3}', '{"offset": 4}')), reached(7))
    found = RollupOutput(tmp_path).progress
    assert found is not None
    assert (found.topic, found.topic_id, found.offsets, found.changes) == (
        "metrics",
        "id",
        {0: 7},
        1,
    )
    assert found.newest_s == START_MS // 1000 + 20
    assert (tmp_path / "aside" / "00000001.jsonl").read_text() == '{"offset": 3}\n{"offset": 4}\n'


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 9}', '{"version": 1, "topic": "a", "offsets": []}']
)
def test_progress_that_cannot_be_read_is_refused(tmp_path, text):
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(UnknownProgress, match=r"progress\.json is"):
        RollupOutput(tmp_path)


def test_a_decided_change_that_is_damaged_is_refused(tmp_path):
    (tmp_path / ".drafts").mkdir()
    (tmp_path / ".drafts" / "commit.json").write_text("{")
    with pytest.raises(UnknownProgress, match="damaged"):
        RollupOutput(tmp_path)


def test_a_change_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "old").write_text("old")

    def fail() -> None:
        with FileChanges(tmp_path) as changes:
            changes.draft_of(tmp_path / "new").write_text("new")
            changes.remove(tmp_path / "old")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert files(tmp_path) == {"old": b"old"}
