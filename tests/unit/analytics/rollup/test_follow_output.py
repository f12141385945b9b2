"""Batches of a stream go into the windows once each, whatever was killed in between."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is missing: it comes with the extra `rollup`")

import pyarrow as pa

from cluster.analytics.file_changes import FileChanges
from cluster.analytics.metric_rows import rows_of
from cluster.analytics.rollup.follow_checkpoint import (
    BadCheckpoint,
    FollowCheckpoint,
    Subject,
)
from cluster.analytics.rollup.follow_output import FollowedOutput, OutOfStep, go_on
from cluster.analytics.rollup_output import Progress, RollupOutput
from cluster.analytics.window_files import WINDOW_SCHEMA, read_windows
from cluster.analytics.window_sums import sums_of_rows
from tests.support.follow_checkpoints import plan_batch
from tests.support.metric_records import (
    START_MS,
    generated_records,
    quota_record,
    windows_of,
)

SUBJECT = Subject("metrics", "id-1", "schema", "cluster-1")
RECORDS = list(generated_records(3, seconds=25, clients=1))


class Killed(BaseException):
    """Stands for a kill -9: nothing is tidied up after it that a process would have tidied up."""


def sums(records) -> pa.Table:
    return sums_of_rows(rows_of([json.dumps(each).encode() for each in records]))


def start_at(output: RollupOutput) -> Progress:
    return output.progress or Progress("metrics", "id-1", {})


def opened(place: Path) -> tuple[FollowedOutput, FollowCheckpoint]:
    """What a process does that begins to follow."""
    output = RollupOutput(place / "out")
    checkpoint = FollowCheckpoint(place / "checkpoint")
    start = start_at(output)
    go_on(checkpoint, SUBJECT, start.offsets)
    return FollowedOutput(output, checkpoint, start), checkpoint


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.sampled_from(["planned", "added", "committed"])),
        min_size=1,
        max_size=4,
    )
)
def test_each_record_is_in_the_windows_once(tmp_path_factory, steps):
    """A process plans, adds and commits batches, and is killed after each of these steps."""
    place = tmp_path_factory.mktemp("follow")
    at = 0
    for size, killed_when in [*steps, (len(RECORDS), "committed")]:
        followed, checkpoint = opened(place)
        last = checkpoint.last_batch()
        if last is not None and not checkpoint.is_committed(last):  # Spark runs it again as it was
            begin, at = checkpoint.start_of(last).get(0, 0), checkpoint.end_of(last)[0]
            followed.take(last, sums(RECORDS[begin:at]))
            plan_batch(checkpoint, last, {0: at}, is_committed=True)
        number = 0 if last is None else last + 1
        end = min(at + size, len(RECORDS))
        plan_batch(checkpoint, number, {0: end})
        if killed_when != "planned":
            followed.take(number, sums(RECORDS[at:end]))
            at = end
        if killed_when == "committed":
            plan_batch(checkpoint, number, {0: end}, is_committed=True)
    expected = pa.Table.from_pylist(windows_of(RECORDS, 10), schema=WINDOW_SCHEMA)
    assert read_windows(place / "out", "10s") == expected


def test_a_batch_that_was_added_is_left_out_when_it_runs_again(tmp_path):
    followed, checkpoint = opened(tmp_path)
    plan_batch(checkpoint, 0, {0: 2})
    first = followed.take(0, sums(RECORDS[:2]))
    again = opened(tmp_path)[0].take(0, sums(RECORDS[:2]))
    assert first.added is not None
    assert again.added is None
    assert again.reached == {0: 2}


def test_a_failure_while_files_are_written_leaves_the_batch_to_run_again(tmp_path, monkeypatch):
    followed, checkpoint = opened(tmp_path)
    plan_batch(checkpoint, 0, {0: len(RECORDS)})

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FileChanges, "__exit__", kill)
        with pytest.raises(Killed):
            followed.take(0, sums(RECORDS))
    assert opened(tmp_path)[0].take(0, sums(RECORDS)).added is not None
    expected = pa.Table.from_pylist(windows_of(RECORDS, 10), schema=WINDOW_SCHEMA)
    assert read_windows(tmp_path / "out", "10s") == expected


def test_a_batch_that_begins_elsewhere_than_the_windows_end_is_refused(tmp_path):
    followed, checkpoint = opened(tmp_path)
    plan_batch(checkpoint, 0, {0: 5})
    plan_batch(checkpoint, 1, {0: 9})
    with pytest.raises(OutOfStep):
        followed.take(1, sums(RECORDS[5:9]))
    assert RollupOutput(tmp_path / "out").progress is None


def test_after_a_rollup_that_did_not_follow_the_batches_begin_anew(tmp_path):
    followed, checkpoint = opened(tmp_path)
    plan_batch(checkpoint, 0, {0: 5})
    followed.take(0, sums(RECORDS[:5]))
    RollupOutput(tmp_path / "out").add(sums(RECORDS[5:9]), Progress("metrics", "id-1", {0: 9}))
    assert not go_on(checkpoint, SUBJECT, {0: 9})
    assert checkpoint.last_batch() is None
    assert checkpoint.start_of(0) == {0: 9}


def test_a_topic_that_was_made_again_begins_anew(tmp_path):
    _, checkpoint = opened(tmp_path)
    plan_batch(checkpoint, 0, {0: 5})
    assert not go_on(checkpoint, Subject("metrics", "id-2", "schema"), {0: 0})
    assert checkpoint.last_batch() is None


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (Subject("other", "id-1", "schema"), "it is about topic metrics"),
        (
            Subject("metrics", "id-1", "schema", "cluster-2"),
            "it is about another cluster, cluster-1",
        ),
        (Subject("metrics", "id-1", "wider"), "it is of a version with other columns"),
    ],
)
def test_a_checkpoint_about_something_else_is_refused(tmp_path, subject, why):
    _, checkpoint = opened(tmp_path)
    with pytest.raises(BadCheckpoint, match=why):
        go_on(checkpoint, subject, {})
    assert checkpoint.subject() == SUBJECT


def test_late_records_are_added_and_counted_and_windows_close(tmp_path):
    output = RollupOutput(tmp_path / "out")
    checkpoint = FollowCheckpoint(tmp_path / "checkpoint")
    go_on(checkpoint, SUBJECT, {})
    followed = FollowedOutput(output, checkpoint, start_at(output), timedelta(seconds=30))
    new, late, on_time = (
        quota_record(ts=START_MS + 1000 * second) for second in (101, 70, 71)
    )  # of windows that began at 100, 60 and 70 s
    for number, records in enumerate(([new], [on_time, late], [late])):
        plan_batch(checkpoint, number, {0: 10 * (number + 1)})
        batch = followed.take(number, sums(records))
        assert batch.added is not None
        assert batch.added.late == (0, 1, 1)[number]
        assert batch.closed_until is not None
        assert batch.closed_until.timestamp() * 1000 == START_MS + 70_000
    found = read_windows(tmp_path / "out", "10s")
    assert found["records"].to_pylist() == [2, 1, 1]
