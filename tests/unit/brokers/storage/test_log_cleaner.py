"""The driver of compaction on the replicas of one broker; cleanings run in this process."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.replication.partition import Partition
from cluster.brokers.storage.log_cleaner import HELPER, RETRY_MS, LogCleaner
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import broker_settings
from cluster.log.log_directory import LogDirectory
from cluster.model.ids import Offset
from cluster.records.builder import NewRecord, build_batch
from cluster.records.reader import read_records
from cluster.runtime.background_thread import run_now
from cluster.runtime.helper_process import HelperFailed
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.inline_helper import InlineHelper

ALONE = a_partition([BROKER])
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "400",
    "min.cleanable.dirty.ratio": "0.3",
    "file.delete.delay.ms": "0",
}
BACKOFF_MS = 15_000


class CleanerStage:
    """The cleaner of a broker with its helpers at hand."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.stage = HandlerStage(directory)
        self.helpers: list[InlineHelper] = []
        self.orders: list[Any] = []
        self.failure: str | None = None
        self.cleaner = LogCleaner(
            LiveSettings(broker_settings({"broker.id": str(BROKER), **(settings or {})})),
            self.stage.table,
            self.stage.slices,
            self._start_helper,
            self.stage.loop.call_after,
            run_now,
            self.stage.clock.wall_ms,
            self.stage.clock.monotonic_ms,
            self.stage.core.storage.moves.is_moving,
        )

    def _start_helper(self, module: str, on_message: Any, on_end: Any) -> InlineHelper:
        if self.failure is not None:
            raise HelperFailed(self.failure)
        assert module == HELPER
        helper = InlineHelper(self.stage.loop.next_turn, module, on_message, on_end)
        self.helpers.append(helper)
        return helper

    def fill(self, partition: Partition, count: int = 40, keys: int = 4) -> None:
        """Records whose keys repeat; segments of a few of them each."""
        for number in range(count):
            batch = build_batch([NewRecord(b"%d" % number, b"key-%d" % (number % keys), WALL_MS)])
            partition.append(memoryview(batch), 1, WALL_MS, self.stage.loop.now_ms)

    def turn_until(self, condition: Callable[[], Any]) -> None:
        for _ in range(200):
            if condition():
                return
            self.stage.turn()
        raise AssertionError("not after 200 turns")

    def clean(self, count: int = 1) -> None:
        """Until so many cleanings are done."""
        self.turn_until(lambda: self.cleaner.counts.cleanings >= count)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[CleanerStage]:
    made = CleanerStage(tmp_path)
    with made.stage:
        made.stage.update(a_topic("t", ALONE, ALONE, configs=COMPACTED))
        yield made
        made.cleaner.close()


def values(partition: Partition) -> list[bytes]:
    """What a reader of the whole partition gets."""
    log, found, at = partition.log, [], Offset(0)
    while at < log.log_end_offset:
        part = log.read(at, 10_000, upper_offset=partition.high_watermark, at_least_one_batch=True)
        found += [one.value for one in read_records(part.view())]
        at = part.next_offset
    return found


def test_a_dirty_log_is_cleaned_and_read_on(made, caplog):
    caplog.set_level(logging.INFO)
    partition = made.stage.partition("t")
    made.fill(partition)
    before = values(partition)
    slice_before = partition.log.read(
        Offset(0), 300, upper_offset=Offset(40), at_least_one_batch=True
    )
    held = bytes(slice_before.view())

    made.cleaner.start()
    made.clean()

    after = values(partition)
    assert len(after) < len(before) / 2
    assert after[-4:] == before[-4:]
    assert partition.log.cleaned_to == partition.log.segments[-1].base_offset
    assert bytes(slice_before.view()) == held
    lines = [line for line in caplog.messages if "cleaned, dirty section" in line]
    assert len(lines) == 1
    assert lines[0].startswith("t-0: cleaned, dirty section offsets 0 to ")


def test_helpers_end_when_nothing_is_left_and_the_next_look_is_after_a_pause(made):
    partition = made.stage.partition("t")
    made.fill(partition)
    made.cleaner.start()
    made.clean()
    made.turn_until(lambda: not made.helpers[0].is_open)
    made.fill(partition)
    for _ in range(20):
        made.stage.turn()
    assert made.cleaner.counts.cleanings == 1
    made.stage.pass_time(BACKOFF_MS)
    made.clean(2)


def test_the_dirtiest_log_comes_first_and_one_helper_does_all(made):
    first, second = made.stage.partition("t", 0), made.stage.partition("t", 1)
    made.fill(first, 20)
    made.fill(second, 40)
    first.log.cleaned_to = Offset(first.log.segments[1].base_offset)
    made.cleaner.start()
    made.clean(1)
    assert (first.log.cleaned_to < first.log.segments[-1].base_offset, len(made.helpers)) == (
        True,
        1,
    )
    assert second.log.cleaned_to == second.log.segments[-1].base_offset
    made.clean(2)
    assert len(made.helpers) == 1


def test_logs_that_are_not_compacted_or_not_dirty_enough_are_left_alone(made):
    made.stage.update(a_topic("other", ALONE, configs={"segment.bytes": "400"}))
    made.fill(made.stage.partition("other"))
    partition = made.stage.partition("t")
    made.fill(partition)
    partition.log.cleaned_to = Offset(partition.log.segments[-2].base_offset)
    made.cleaner.start()
    for _ in range(20):
        made.stage.turn()
    assert made.helpers == []
    assert 0 < made.cleaner.counts.max_dirty_ratio < 0.3


def test_cleaner_leaves_records_that_are_not_replicated(made):
    made.stage.update(a_topic("r", a_partition([BROKER, 2]), configs=COMPACTED))
    partition = made.stage.partition("r")
    made.fill(partition)
    assert partition.high_watermark == 0
    made.cleaner.start()
    for _ in range(20):
        made.stage.turn()
    assert made.helpers == []


@pytest.mark.parametrize(
    "settings", [{"log.cleaner.enable": "false"}, {"log.cleaner.threads": "0"}]
)
def test_cleaner_can_be_switched_off(tmp_path, settings):
    made = CleanerStage(tmp_path, settings)
    with made.stage:
        made.stage.update(a_topic("t", ALONE, configs=COMPACTED))
        made.fill(made.stage.partition("t"))
        made.cleaner.start()
        for _ in range(20):
            made.stage.turn()
    assert made.helpers == []


def test_several_logs_are_cleaned_at_once_by_as_many_helpers_as_threads(tmp_path):
    made = CleanerStage(tmp_path, {"log.cleaner.threads": "2"})
    with made.stage:
        made.stage.update(a_topic("t", ALONE, ALONE, ALONE, configs=COMPACTED))
        for number in range(3):
            made.fill(made.stage.partition("t", number))
        made.cleaner.start()
        made.turn_until(lambda: len(made.helpers) == 2)
        made.clean(3)
        assert len(made.helpers) == 2


def begin(made: CleanerStage, partition: Partition) -> None:
    """Until a helper has its order, and has not begun."""
    made.fill(partition)
    made.cleaner.start()
    made.turn_until(lambda: made.helpers)


def leftovers(partition: Partition) -> list[str]:
    if not partition.log.directory.exists():
        return []
    return [
        path.name
        for path in partition.log.directory.iterdir()
        if path.name.endswith((".cleaned", ".swap"))
    ]


def test_a_log_that_was_cut_meanwhile_keeps_what_it_has(made):
    partition = made.stage.partition("t")
    begin(made, partition)
    before = values(partition)
    partition.log.truncate_to(Offset(39))
    made.turn_until(lambda: not made.helpers[0].is_open)
    assert values(partition)[:39] == before[:39]
    assert leftovers(partition) == []
    assert partition.log.cleaned_to == 0


def test_a_log_that_has_moved_meanwhile_is_not_touched(made):
    partition = made.stage.partition("t")
    begin(made, partition)
    before = values(partition)
    other = made.stage.partition("t", 1)
    partition.log, moved = other.log, partition.log
    made.turn_until(lambda: not made.helpers[0].is_open)
    partition.log = moved
    assert values(partition) == before
    assert leftovers(partition) == []


def test_segments_that_were_deleted_meanwhile_do_not_come_back(made):
    partition = made.stage.partition("t")
    begin(made, partition)
    made.stage.turn()
    partition.log.drop_segments(2)
    start = partition.log.log_start_offset
    made.turn_until(lambda: not made.helpers[0].is_open)
    assert partition.log.segments[0].base_offset == start
    assert leftovers(partition) == []


def test_a_deleted_topic_ends_its_cleaning_without_a_word(made, caplog):
    partition = made.stage.partition("t")
    begin(made, partition)
    made.stage.update(deleted=("t",))
    made.turn_until(lambda: not made.helpers[0].is_open)
    assert [line for line in caplog.messages if "cleaned" in line] == []


def test_a_topic_that_is_compacted_no_more_stays_as_it_is(made):
    partition = made.stage.partition("t")
    begin(made, partition)
    before = values(partition)
    made.stage.update(a_topic("t", ALONE, ALONE, configs=COMPACTED | {"cleanup.policy": "delete"}))
    made.turn_until(lambda: not made.helpers[0].is_open)
    assert values(partition) == before


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "cannot be cleaned" in line]


def test_a_damaged_log_is_left_alone_with_one_line_and_others_are_cleaned(made, caplog):
    partition, other = made.stage.partition("t", 0), made.stage.partition("t", 1)
    made.fill(partition)
    made.fill(other)
    path = partition.log.segments[1].file.path
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    made.cleaner.start()
    made.clean()
    for _ in range(5):
        made.stage.pass_time(RETRY_MS)
    assert other.log.cleaned_to > 0
    assert partition.log.cleaned_to == 0
    assert leftovers(partition) == []
    assert len(warnings(caplog)) == 1
    assert "checksum of the batch at offset" in warnings(caplog)[0]
    assert made.cleaner.uncleanable_count == 1


def test_a_helper_that_dies_or_cannot_be_started_is_tried_again_with_one_line(made, caplog):
    partition = made.stage.partition("t")
    made.failure = "cannot start: no memory"
    made.fill(partition)
    made.cleaner.start()
    for _ in range(3):
        made.stage.pass_time(RETRY_MS)
    assert len(warnings(caplog)) == 1
    made.failure = None
    made.turn_until(lambda: made.stage.pass_time(RETRY_MS) or made.helpers)
    made.helpers[0].end("ended by signal 9")
    assert "the process that cleans it ended by signal 9" in warnings(caplog)[1]
    made.stage.pass_time(RETRY_MS)
    made.clean()
    assert made.cleaner.uncleanable_count == 0


def test_how_far_it_came_is_known_after_a_restart(tmp_path):
    made = CleanerStage(tmp_path)
    with made.stage:
        made.stage.update(a_topic("t", ALONE, configs=COMPACTED))
        partition = made.stage.partition("t")
        made.fill(partition)
        made.cleaner.start()
        made.clean()
        cleaned_to = partition.log.cleaned_to
        made.cleaner.close()
        made.stage.table.close()
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n1\nt 0 {cleaned_to}\n"
    again = HandlerStage(tmp_path)
    with again:
        assert again.partition("t").log.cleaned_to == cleaned_to
        again.partition("t").log.truncate_to(Offset(3))
        assert again.partition("t").log.cleaned_to <= 3


def test_a_directory_without_compacted_logs_has_no_checkpoint_of_the_cleaner(tmp_path):
    directory = LogDirectory.open(tmp_path, "stage", 1)
    directory.write_cleaner_offsets({})
    directory.close()
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()
