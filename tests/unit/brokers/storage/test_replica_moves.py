"""Replicas that move between log directories while they are written, cut and deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.config.broker import REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
from cluster.config.dynamic import OWN, applied
from cluster.log.log_directory import LogDirectory
from cluster.model.errors import ErrorCode
from cluster.model.ids import Offset, TopicPartition
from cluster.protocol.api import ApiKey
from cluster.records.batch import batches_of
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.inline_background import InlineBackground
from tests.support.kafka_wire import produce_to, request
from tests.support.manual_background import ManualBackground

T0 = TopicPartition("t", 0)
SMALL = {"segment.bytes": "1000", "file.delete.delay.ms": "0"}
BIG = b"x" * 200


@pytest.fixture
def thread() -> ManualBackground:
    """Does one call at a time, when a test says so."""
    return ManualBackground()


@pytest.fixture
def stage(tmp_path: Path, thread: ManualBackground) -> Iterator[HandlerStage]:
    with make_stage(tmp_path, thread) as made:
        yield made


def make_stage(tmp_path: Path, thread: ManualBackground) -> HandlerStage:
    return HandlerStage(
        tmp_path / "one",
        more_directories=[tmp_path / "two"],
        background=thread.only_for("replica-mover"),
    )


def directory_of(stage: HandlerStage, partition: TopicPartition = T0) -> LogDirectory:
    directory = stage.table.directory_of(partition)
    assert directory is not None
    return directory


def other_directory(stage: HandlerStage) -> LogDirectory:
    (other,) = (d for d in stage.directories if d is not directory_of(stage))
    return other


def append(stage: HandlerStage, *values: bytes) -> None:
    for value in values:
        answer = stage.connect().call(produce_to(("t", 0, a_batch(value)), acks=1))
        assert codes_of(produced_in(answer)) == [0]


def alter(stage: HandlerStage, path: Path, topic: str = "t", number: int = 0) -> int:
    answer = stage.connect().call(
        request(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            2,
            dirs=[{"path": str(path), "topics": [{"name": topic, "partitions": [number]}]}],
        )
    )
    (result,) = answer.results
    assert result.topic_name == topic
    return int(result.partitions[0].error_code)


def describe(stage: HandlerStage, version: int = 4, topics: Any = None) -> list[Any]:
    answer = stage.connect().call(request(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics))
    return list(answer.results)


def rows(stage: HandlerStage) -> dict[str, list[tuple[int, int, bool]]]:
    """Size, lag and future of every row, by the name of the directory."""
    return {
        Path(result.log_dir).name: [
            (row.partition_size, row.offset_lag, row.is_future_key)
            for topic in result.topics
            for row in topic.partitions
        ]
        for result in describe(stage)
    }


def content(stage: HandlerStage) -> bytes:
    log = stage.partition("t").log
    offset, parts = log.log_start_offset, []
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True)
        parts += [bytes(batch) for _, batch in batches_of(part.view())]
        offset = part.next_offset
    return b"".join(parts)


def work_until_idle(stage: HandlerStage, thread: ManualBackground) -> None:
    while thread.do_one():
        stage.turn()
    for _ in range(5):  # the checkpoints, then the files
        stage.turn()


def test_a_replica_moves_with_all_that_belongs_to_it(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 20)
    stage.partition("t").log.advance_log_start_offset(Offset(3))
    source, target = directory_of(stage), other_directory(stage)
    before = content(stage)
    assert len(stage.partition("t").log.segments) > 3

    assert alter(stage, target.path) == 0
    work_until_idle(stage, thread)

    assert directory_of(stage) is target
    log = stage.partition("t").log
    assert log.directory == target.path / "t-0"
    assert (log.log_start_offset, log.log_end_offset) == (3, 20)
    assert content(stage) == before
    assert list(source.path.glob("t-0*")) == []
    assert [path.name for path in target.path.glob("t-0*")] == ["t-0"]
    append(stage, *[BIG] * 10)
    assert content(stage)[: len(before)] == before
    stage.table.close()
    assert target.read_log_start_offsets() == {T0: 3}
    assert source.read_log_start_offsets() == {}


def test_the_moved_log_opens_again_after_a_crash_and_after_a_clean_stop(
    stage: HandlerStage, thread: ManualBackground, tmp_path: Path
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 20)
    alter(stage, other_directory(stage).path)
    work_until_idle(stage, thread)
    append(stage, b"more", BIG, BIG, BIG, BIG)
    before = content(stage)
    for is_clean in (False, True):
        if is_clean:
            stage.table.close()
        for directory in stage.directories:
            directory.close()
        with make_stage(tmp_path, thread) as again:
            assert content(again) == before
            assert again.partition("t").log.epochs.entries == [(0, 0)]


def test_records_are_produced_and_read_while_it_moves(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 5)
    alter(stage, other_directory(stage).path)
    number = 0
    while thread.do_one():
        stage.turn()
        append(stage, b"%d" % number + BIG)
        number += 1
    assert number >= 3
    assert directory_of(stage).path.name == "two"
    assert stage.partition("t").log.log_end_offset == 5 + number
    assert content(stage).count(BIG) == 5 + number


def test_the_rate_of_moving_changes_while_it_moves(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 9)
    live = stage.core.foundation.live
    key = REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND.name

    def pieces_within_a_second(bytes_per_second: int) -> int:
        live.replace(applied(live.started, {OWN: {key: str(bytes_per_second)}}).settings)
        done = 0
        for _ in range(10):
            done += thread.do_one()
            stage.pass_time(100)
            stage.turn()
        return done

    alter(stage, other_directory(stage).path)
    assert pieces_within_a_second(1) == 1
    stage.pass_time(3_600_000)
    assert pieces_within_a_second(1_000_000_000) > 1
    work_until_idle(stage, thread)
    assert directory_of(stage).path.name == "two"


def test_the_copy_is_described_as_future_with_its_lag(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 9)
    size = stage.partition("t").log.size_bytes
    assert rows(stage) == {"one": [(size, 0, False)], "two": []}

    alter(stage, other_directory(stage).path)
    assert rows(stage) == {"one": [(size, 0, False)], "two": [(0, 9, True)]}
    thread.do_one()  # the first segment
    stage.turn()
    first = stage.partition("t").log.segments[0]
    lag = 9 - stage.partition("t").log.segments[1].base_offset
    assert rows(stage)["two"] == [(first.file.size_bytes, lag, True)]
    assert describe(stage, topics=[{"topic": "u", "partitions": [0]}])[0].topics == ()
    work_until_idle(stage, thread)
    assert rows(stage) == {"one": [], "two": [(size, 0, False)]}


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_every_directory(stage: HandlerStage, version: int) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), a_partition([BROKER])))
    found = describe(stage, version)
    assert [(r.error_code, Path(r.log_dir).name, len(r.topics)) for r in found] == [
        (0, "one", 1),
        (0, "two", 1),
    ]
    if version >= 4:
        assert all(0 < r.usable_bytes < r.total_bytes for r in found)


def test_a_failed_directory_is_described_as_such_and_nothing_moves(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), a_partition([BROKER])))
    one, two = stage.directories
    two.fail("cannot write")
    stage.table.take_offline(two)
    found = describe(stage)
    assert [r.error_code for r in found] == [0, ErrorCode.kafka_storage_error]
    assert found[1].topics == ()
    assert (found[1].total_bytes, found[1].usable_bytes) == (-1, -1)
    assert alter(stage, two.path) == ErrorCode.kafka_storage_error
    assert alter(stage, one.path, number=1) == ErrorCode.kafka_storage_error
    assert alter(stage, one.path) == 0  # where it is already


def test_impossible_moves_are_refused(stage: HandlerStage, tmp_path: Path) -> None:
    name = "long-" * 43
    stage.update(a_topic("t", a_partition([BROKER])), a_topic(name, a_partition([BROKER])))
    assert alter(stage, tmp_path / "three") == ErrorCode.log_dir_not_found
    assert alter(stage, Path("one")) == ErrorCode.log_dir_not_found
    target = other_directory(stage).path
    assert alter(stage, target, topic=name) == ErrorCode.invalid_topic_exception
    assert alter(stage, target, topic="x") == ErrorCode.replica_not_available
    assert alter(stage, directory_of(stage).path) == 0


def test_a_replica_that_is_not_here_yet_is_made_where_it_was_wanted(stage: HandlerStage) -> None:
    wanted = stage.directories[1]
    for number in range(4):
        code = alter(stage, wanted.path, number=number)
        assert code == ErrorCode.replica_not_available
    stage.update(a_topic("t", *[a_partition([BROKER])] * 6))
    places = [directory_of(stage, TopicPartition("t", n)) for n in range(6)]
    assert places[:4] == [wanted] * 4
    assert wanted not in places[4:]


def test_a_truncation_on_the_way_begins_it_anew(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([OTHER, BROKER]), configs=SMALL))
    replica = stage.partition("t")

    def follow(value: bytes) -> None:
        batch = bytearray(a_batch(value))
        batch[:8] = int(replica.log.log_end_offset).to_bytes(8, "big")
        batch[12:16] = bytes(4)
        replica.log.append_as_follower(memoryview(batch), stage.clock.wall_ms())

    for _ in range(9):
        follow(BIG)
    alter(stage, other_directory(stage).path)
    for _ in range(3):
        thread.do_one()
        stage.turn()
    replica.truncate_to(Offset(2))
    for _ in range(9):
        follow(b"y" * 200)
    work_until_idle(stage, thread)
    assert directory_of(stage).path.name == "two"
    assert content(stage).count(b"x" * 200) == 2
    assert content(stage).count(b"y" * 200) == 9
    stage.table.close()


def test_segments_removed_on_the_way_are_not_in_the_copy(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 20)
    alter(stage, other_directory(stage).path)
    for _ in range(4):
        thread.do_one()
        stage.turn()
    stage.partition("t").log.drop_segments(4)
    before = content(stage)
    work_until_idle(stage, thread)
    assert content(stage) == before
    log = stage.partition("t").log
    kept = {f"{segment.base_offset:020d}.log" for segment in log.segments}
    assert {path.name for path in log.directory.glob("*.log")} == kept


def test_a_deleted_topic_ends_its_move(stage: HandlerStage, thread: ManualBackground) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 9)
    alter(stage, other_directory(stage).path)
    thread.do_one()
    stage.turn()
    stage.update(deleted=("t",))
    work_until_idle(stage, thread)
    for directory in stage.directories:
        assert list(directory.path.glob("t-0*")) == []
    assert not stage.core.storage.moves.is_moving(T0)


def moved_without_checkpoints(stage: HandlerStage, thread: ManualBackground) -> None:
    """A replica is in another directory, and the old one waits for checkpoints to be written."""
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 9)
    target = other_directory(stage)
    alter(stage, target.path)
    while thread.do_one():
        stage.turn()
    assert directory_of(stage) is target


def checkpoint_late(
    tmp_path: Path, thread: ManualBackground, checkpoints: ManualBackground
) -> HandlerStage:
    """A broker on which both threads work when a test says so."""
    threads = {"replica-mover": thread, "checkpoints": checkpoints}
    return HandlerStage(
        tmp_path / "one",
        more_directories=[tmp_path / "two"],
        background=lambda name, share: threads.get(name) or InlineBackground(name, share),
    )


def catch_up(stage: HandlerStage, checkpoints: ManualBackground) -> None:
    """Those that are waiting, and one set more."""
    for _ in range(10):
        checkpoints.do_one()
        stage.turn()


def test_a_topic_made_again_before_the_checkpoints_is_not_mixed_with_what_moved_away(
    tmp_path: Path, thread: ManualBackground
) -> None:
    checkpoints = ManualBackground()
    with checkpoint_late(tmp_path, thread, checkpoints) as stage:
        moved_without_checkpoints(stage, thread)
        source = other_directory(stage)
        stage.update(deleted=("t",))
        stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
        assert directory_of(stage) is source
        append(stage, b"new")
        log = stage.partition("t").log
        assert [path.name for path in log.directory.glob("*.log")] == [f"{0:020d}.log"]
        catch_up(stage, checkpoints)
        assert log.segments[0].file.path.read_bytes().startswith(content(stage))
        assert [path.name for path in source.path.glob("t-0*")] == ["t-0"]


def test_a_replica_moves_back_before_the_checkpoints(
    tmp_path: Path, thread: ManualBackground
) -> None:
    checkpoints = ManualBackground()
    with checkpoint_late(tmp_path, thread, checkpoints) as stage:
        moved_without_checkpoints(stage, thread)
        source, before = other_directory(stage), content(stage)
        alter(stage, source.path)
        while thread.do_one():
            stage.turn()
        assert directory_of(stage) is source
        catch_up(stage, checkpoints)
        assert content(stage) == before
        found = [path for name in ("one", "two") for path in (tmp_path / name).glob("t-0*")]
        assert found == [source.path / "t-0"]


def test_a_move_is_called_off_by_asking_for_where_the_replica_is(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 9)
    target = other_directory(stage)
    alter(stage, target.path)
    assert alter(stage, target.path) == 0  # again: nothing new
    thread.do_one()
    stage.turn()
    assert alter(stage, directory_of(stage).path) == 0
    work_until_idle(stage, thread)
    assert directory_of(stage) is not target
    assert list(target.path.glob("t-0*")) == []


def test_a_failure_of_the_disk_that_it_moves_to_leaves_the_replica_alone(
    stage: HandlerStage, thread: ManualBackground
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
    append(stage, *[BIG] * 9)
    target = other_directory(stage)
    alter(stage, target.path)
    target.path.rename(target.path.with_name("aside"))
    work_until_idle(stage, thread)
    assert directory_of(stage) is not target
    append(stage, BIG)
    assert rows(stage)["one"][0][2] is False


@pytest.mark.parametrize("jobs", range(9))
def test_a_crash_at_any_point_loses_nothing_and_the_move_goes_on(
    tmp_path: Path, thread: ManualBackground, jobs: int
) -> None:
    with make_stage(tmp_path, thread) as stage:
        stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
        append(stage, *[BIG] * 9)
        before = content(stage)
        alter(stage, other_directory(stage).path)
        for _ in range(jobs):
            thread.do_one()
            stage.turn()
    thread.forget()
    with make_stage(tmp_path, thread) as again:
        assert content(again) == before
        again.core.storage.moves.resume()
        work_until_idle(again, thread)
        assert content(again) == before
        found = [path.name for name in ("one", "two") for path in (tmp_path / name).glob("t-0*")]
        found = [name for name in found if not name.endswith("-delete")]
        (aside,) = [name for name in found if name != "t-0"] or [None]
        if aside is None:
            assert directory_of(again).path.name == "two"
        else:  # both were whole: either will do
            assert aside.endswith("-stray")
        assert found.count("t-0") == 1


def test_a_copy_whose_original_is_in_a_failed_directory_is_kept(
    tmp_path: Path, thread: ManualBackground
) -> None:
    with make_stage(tmp_path, thread) as stage:
        stage.update(a_topic("t", a_partition([BROKER]), configs=SMALL))
        append(stage, *[BIG] * 9)
        alter(stage, other_directory(stage).path)
        thread.do_one()
        stage.turn()
    thread.forget()
    (tmp_path / "one").rename(tmp_path / "aside")
    (tmp_path / "one").write_bytes(b"in the way")
    with make_stage(tmp_path, thread) as again:
        again.core.storage.moves.resume()
        work_until_idle(again, thread)
        assert len(list((tmp_path / "two").glob("t-0.*-future"))) == 1


@pytest.mark.slow
def test_many_replicas_are_described_in_slices(stage: HandlerStage) -> None:
    count = 1_200
    stage.update(a_topic("t", *[a_partition([BROKER])] * count))
    while not stage.slices.is_idle:
        stage.turn()
    client = stage.connect()
    client.send(request(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None))
    assert client.receive() is None
    while client.is_waiting:
        stage.turn()
    answer = client.receive()
    assert [len(r.topics[0].partitions) for r in answer.results] == [count // 2, count // 2]
