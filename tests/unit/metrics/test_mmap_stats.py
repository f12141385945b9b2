"""A writer's file as other processes see it: during and after writes, and after its death."""

import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.metrics.histogram import BUCKETS, Histogram
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import (
    COUNTER_64,
    GROUPS_TEXT_AT,
    HISTOGRAM_NUMBERS,
    PARTS,
    ROW_BYTES,
    TOPIC_VALUES,
    MetricKind,
    QuotaRow,
)
from cluster.metrics.stats_reader import read_memory, read_stats
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import InvariantViolated, StorageFailed
from tests.support.waiting import wait_until

WRITER = """
import sys
from pathlib import Path
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow, MetricKind
stats = MmapStats.create(Path(sys.argv[1]), "writer", 5, slots=600, rows=4, groups_bytes=4096)
beat = stats.slot("beat", MetricKind.COUNTER)
number = 0
while True:
    number += 1
    letter = "abcdefgh"[number % 8]
    stats.write_row(number % 4, QuotaRow(
        quota="produce", user=letter * 100, client_id=letter * 150, rule="client", limit=number,
        limits=(number,) * 8, rate=number, window_seconds=number, delay_ms=number,
        requests=number, throttled=number, usage=number, throttle_ms=number, muted_ms=number,
        muted_until_ms=number, active_ms=number, written_wall_ms=number))
    stats.write_groups(letter.encode() * (number % 4096))
    stats.counts[beat] += 1
    if number % 50 == 0 and number // 50 < 599:
        stats.slot(f"name-{number // 50}", MetricKind.GAUGE)
"""


def view(stats):
    return memoryview(stats.memory)


def test_reader_returns_written_names_and_values(tmp_path):
    stats = MmapStats.create(tmp_path / "s", "broker-7", 1234)
    counter = stats.slot("c", MetricKind.COUNTER)
    gauge = stats.slot("g", MetricKind.GAUGE)
    real = stats.slot("r", MetricKind.REAL)
    stats.counts[counter] += 41
    stats.counts[counter] += 1
    stats.counts[gauge] = -3
    stats.reals[real] = 0.25
    stats.write_time(WallMs(99), MonotonicMs(88))
    read = read_stats(tmp_path / "s")
    assert read.values == {"c": 42, "g": -3, "r": 0.25}
    assert (read.process, read.started_wall_ms) == ("broker-7", 1234)
    assert (read.written_wall_ms, read.written_ms) == (99, 88)
    assert read.rows == []
    assert stats.slot("c", MetricKind.COUNTER) == counter


def test_create_replaces_the_old_file(tmp_path):
    path = tmp_path / "s"
    old = MmapStats.create(path, "old", 1)
    old.counts[old.slot("x", MetricKind.COUNTER)] = 9
    new = MmapStats.create(path, "new", 2)
    old.counts[0] = 10
    assert read_stats(path).process == "new"
    assert read_stats(path).values == {}
    assert new.memory[:8] == old.memory[:8]
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 1 << 40)), max_size=30))
def test_reader_returns_the_rows_written_last(orders):
    stats = MmapStats.in_memory(slots=1, rows=5)
    model = {}
    for index, number in orders:
        if number is None:
            stats.free_row(index)
            model.pop(index, None)
        else:
            model[index] = QuotaRow(quota="fetch", user="u", client_id=f"c{index}", requests=number)
            stats.write_row(index, model[index])
    read = read_memory(view(stats))
    assert read.rows == [model[index] for index in sorted(model)]
    assert read.torn_count == 0


def test_a_row_whose_writer_stopped_halfway_is_left_out():
    stats = MmapStats.in_memory(slots=1, rows=3, requests=0, topics=0)
    for index in range(3):
        stats.write_row(index, QuotaRow(quota="fetch", user="u", client_id=f"c{index}"))
    position = len(stats.memory) - 2 * ROW_BYTES
    COUNTER_64.pack_into(stats.memory, position, 3)
    read = read_memory(view(stats))
    assert [row.client_id for row in read.rows] == ["c0", "c2"]
    assert read.torn_count == 1


@given(st.lists(st.binary(max_size=64), max_size=8))
def test_reader_returns_the_groups_written_last(texts):
    stats = MmapStats.in_memory(slots=1, rows=2, groups_bytes=64)
    for text in [b"", *texts]:
        stats.write_groups(text)
        assert read_memory(view(stats)).groups == text


def test_groups_whose_writer_stopped_halfway_are_left_out():
    stats = MmapStats.in_memory(slots=1, rows=2, groups_bytes=64)
    stats.write_groups(b"whole")
    position = len(stats.memory) - 64 - GROUPS_TEXT_AT
    COUNTER_64.pack_into(stats.memory, position, 3)
    assert read_memory(view(stats)).groups == b""


def test_write_groups_raises_when_groups_do_not_fit():
    stats = MmapStats.in_memory(slots=1, rows=0, groups_bytes=8)
    with pytest.raises(InvariantViolated, match="too many"):
        stats.write_groups(b"123456789")
    assert MmapStats.in_memory(slots=1, rows=0).groups_capacity == 0


def test_slot_raises_when_names_are_too_many_or_too_long():
    stats = MmapStats.in_memory(slots=1, rows=0)
    with pytest.raises(InvariantViolated, match="longer than"):
        stats.slot("n" * 200, MetricKind.COUNTER)
    stats = MmapStats.in_memory(slots=1, rows=0)
    stats.slot("a", MetricKind.COUNTER)
    with pytest.raises(InvariantViolated, match="no slot is left"):
        stats.slot("b", MetricKind.COUNTER)


def test_create_raises_when_the_file_cannot_be_written(tmp_path):
    with pytest.raises(StorageFailed, match="No such file"):
        MmapStats.create(tmp_path / "absent" / "s", "x", 0)


@pytest.mark.parametrize("content", [b"", b"x", b"MILSTAT1", bytes(5000)])
def test_reader_raises_value_error_for_other_files(tmp_path, content):
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(ValueError, match=r".+"):
        read_stats(tmp_path / "s")


@pytest.mark.slow
def test_readers_never_see_partial_rows_even_after_kill_9(tmp_path):
    path = tmp_path / "s"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) as writer:
        wait_until(path.exists, "the file")
        beats, names = [], []
        for _ in range(1_500):
            read = read_stats(path)
            check(read)
            if "beat" in read.values:  # not where the writer rested while it added a name
                beats.append(read.values["beat"])
                names.append(len(read.values))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert beats == sorted(beats)
    assert names == sorted(names)
    assert beats[-1] > beats[0]
    after = read_stats(path)
    check(after)
    assert after.pid == writer.pid
    assert after.values["beat"] >= beats[-1]
    assert len(after.rows) + after.torn_count == 4


def check(read):
    for row in read.rows:
        number = row.requests
        assert {row.rate, row.delay_ms, row.usage, row.limit, *row.limits} == {number}
        assert (row.muted_until_ms, row.active_ms, row.written_wall_ms) == (number,) * 3
        letter = "abcdefgh"[number % 8]
        assert (row.user, row.client_id) == (letter * 100, letter * 150)
    assert len(set(read.groups)) <= 1
    assert all(name == "beat" or name.startswith("name-") for name in read.values)


def test_times_of_requests_and_topics_are_read_as_they_were_written():
    stats = MmapStats.in_memory(slots=1, rows=1, requests=2, topics=3)
    row = stats.request_row("Produce")
    stats.request_row("Unused")
    first = [900, 0, 3, *[0] * (BUCKETS - 2)]
    stats.write_times(row, first + [0] * (HISTOGRAM_NUMBERS * (PARTS - 1)))
    stats.write_topic(0, "_other", range(TOPIC_VALUES))
    stats.write_topic(2, "x" * 249, [1 << 40] * TOPIC_VALUES)
    stats.write_topic(1, "gone", [1] * TOPIC_VALUES)
    stats.free_topic(1)
    read = read_memory(view(stats))
    assert read.requests.keys() == {"Produce"}
    assert read.requests["Produce"]["TotalTimeMs"] == Histogram(900, tuple(first[1:]))
    assert read.requests["Produce"]["ResponseSendTimeMs"] == Histogram()
    assert read.topics.keys() == {"_other", "x" * 249}
    assert list(read.topics["_other"].values()) == list(range(TOPIC_VALUES))
    assert read.topics["x" * 249]["Size"] == 1 << 40
    with pytest.raises(InvariantViolated):
        stats.request_row("OneTooMany")
