"""Damaged replicas are repaired from others, or refuse what nobody has; no wrong byte is taken."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.replication.partition import Partition
from cluster.brokers.storage.replica_repairs import PATIENCE_MS, RETRY_MS
from cluster.config.broker import LOG_SCRUB_INTERVAL_MS
from cluster.config.dynamic import OWN, applied
from cluster.log.closed_rebuild import ClosedRebuild
from cluster.log.damage import DamagedBatch
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, Offset
from cluster.protocol.peer.control import AskBatches, Batches
from cluster.records.batch import batches_of, read_header
from cluster.records.reader import read_records
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.fake_control_link import over_the_wire
from tests.support.handler_requests import WALL_MS, a_batch, codes_of, fetched_in, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.kafka_wire import fetch_from, produce_to, wanted
from tests.unit.log.log_builder import append

CONFIGS = {"segment.bytes": "1000", "file.delete.delay.ms": "0"}
BOTH = [BROKER, OTHER]
RECORDS = 30


class Replicas:
    """A leader and a follower with the same log, of several segments."""

    def __init__(self, root: Path, configs: dict[str, str]) -> None:
        self.leader = HandlerStage(root / "leader")
        self.other = HandlerStage(root / "other", number=OTHER)
        topic = a_topic("t", a_partition(BOTH), configs=configs)
        for stage in (self.leader, self.other):
            stage.update(topic)
        for number in range(RECORDS):
            self.append(b"value %d" % number)

    def append(self, value: bytes) -> None:
        answer = self.leader.connect().call(produce_to(("t", 0, a_batch(value)), acks=1))
        assert codes_of(produced_in(answer)) == [0]
        end = self.led.log.log_end_offset
        part = self.led.log.read(Offset(end - 1), 1, upper_offset=end, at_least_one_batch=True)
        self.followed.log.append_as_follower(part.view(), WallMs(0))
        self.leader.follower_fetches(OTHER, self.led, end)
        self.followed.learn_high_watermark(end)

    @property
    def led(self) -> Partition:
        return self.leader.partition("t")

    @property
    def followed(self) -> Partition:
        return self.other.partition("t")

    def deliver(self, reply: Any = None) -> list[AskBatches]:
        """Let requests for batches reach the other broker until none is left."""
        asked = []
        for stage, peer in ((self.leader, self.other), (self.other, self.leader)):
            while requests := [a for a in stage.link.take() if isinstance(a.request, AskBatches)]:
                for one in requests:
                    asked.append(one.request)
                    if reply is not None:
                        one.on_reply(over_the_wire(reply))
                    else:
                        peer.link.receive(
                            one.request, lambda answer, to=one: to.on_reply(over_the_wire(answer))
                        )
                for _ in range(4):
                    stage.turn()
        return asked


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, CONFIGS)
    with made.leader, made.other:
        yield made


def damage(partition: Partition, slot: int = 1, batch: int = 2, at: int = 65) -> tuple[int, bytes]:
    """Flip a byte of a batch of a closed segment; its offset, and the file as it was."""
    path = partition.log.segments[slot].file.path
    before, position = path.read_bytes(), 0
    for _ in range(batch):
        position += read_header(before, position).size_bytes
    with path.open("r+b") as file:
        file.seek(position + at)
        file.write(bytes([before[position + at] ^ 4]))
    return read_header(before, position).base_offset, before


def file_of(partition: Partition, slot: int = 1) -> bytes:
    return partition.log.segments[slot].file.path.read_bytes()


def fetch(stage: HandlerStage, offset: int, wait_ms: int = 5_000) -> tuple[StageConnection, Any]:
    client = stage.connect()
    return client, client.call(fetch_from(("t", [wanted(0, offset)]), max_wait_ms=wait_ms))


def values_of(answer: Any) -> list[bytes | None]:
    (partition,) = fetched_in(answer)
    assert int(partition.error_code) == ErrorCode.none
    return [record.value for record in read_records(memoryview(partition.records))]


def turns(stage: HandlerStage) -> None:
    for _ in range(4):
        stage.turn()


def test_a_fetch_of_damaged_records_waits_until_they_are_repaired(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    offset, before = damage(replicas.led)
    client, answer = fetch(replicas.leader, offset)
    assert answer is None
    turns(replicas.leader)
    (asked,) = replicas.deliver()
    assert (asked.offset, asked.end_offset) == (offset, offset + 1)
    assert file_of(replicas.led) == before
    turns(replicas.leader)
    assert values_of(client.receive())[0] == b"value %d" % offset
    assert len(replicas.led.log.damage) == 0
    lines = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert [level for level, text in lines if "damaged at byte" in text] == ["ERROR"]
    assert [level for level, text in lines if "are repaired, from broker 2" in text] == ["WARNING"]
    counts = replicas.leader.core.maintenance.scrubber.counts
    assert (counts.damaged, counts.repaired) == (1, 1)


def test_a_fetch_is_answered_with_an_error_when_nobody_else_has_the_records(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    offset, _ = damage(replicas.led)
    damage(replicas.followed)
    client, answer = fetch(replicas.leader, offset)
    assert answer is None
    turns(replicas.leader)
    replicas.deliver()
    turns(replicas.leader)
    (partition,) = fetched_in(client.receive())
    assert int(partition.error_code) == ErrorCode.corrupt_message
    assert values_of(fetch(replicas.leader, offset + 1)[1])[0] == b"value %d" % (offset + 1)
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert sum("cannot be repaired" in text for text in errors) == 1

    # The other replica is whole again: the next attempt succeeds.
    damage(replicas.followed)
    replicas.leader.pass_time(RETRY_MS)
    turns(replicas.leader)
    replicas.deliver()
    assert values_of(fetch(replicas.leader, offset)[1])[0] == b"value %d" % offset


def test_a_fetch_does_not_wait_longer_than_its_time_or_the_brokers_patience(
    replicas: Replicas,
) -> None:
    offset, _ = damage(replicas.led)
    client, answer = fetch(replicas.leader, offset, wait_ms=1_000)
    assert answer is None
    replicas.leader.pass_time(1_000)
    assert values_of(client.receive()) == []
    client, answer = fetch(replicas.leader, offset, wait_ms=60_000)
    assert answer is None
    replicas.leader.pass_time(PATIENCE_MS)
    turns(replicas.leader)
    (partition,) = fetched_in(client.receive())
    assert int(partition.error_code) == ErrorCode.corrupt_message


def test_the_scrub_has_a_follower_repaired(replicas: Replicas) -> None:
    live = replicas.other.core.foundation.live
    live.replace(applied(live.now, {OWN: {LOG_SCRUB_INTERVAL_MS.name: "5000"}}).settings)
    offset, before = damage(replicas.followed, slot=0, batch=1)
    stage = replicas.other
    stage.core.maintenance.start_scrubbing()
    for _ in range(100):
        stage.pass_time(1_000)
        replicas.deliver()
    assert file_of(replicas.followed, 0) == before
    assert len(replicas.followed.log.damage) == 0
    counts = stage.core.maintenance.scrubber.counts
    assert counts.checked_bytes > replicas.followed.log.size_bytes
    assert (counts.damaged, counts.repaired) == (1, 1)
    assert offset == 1


@pytest.mark.parametrize(
    "kind", ["another offset", "another size", "another epoch", "damaged", "nothing"]
)
def test_batches_that_cannot_have_been_there_are_not_written(replicas: Replicas, kind: str) -> None:
    offset, _ = damage(replicas.led)
    found = file_of(replicas.led)
    fetch(replicas.leader, offset)
    turns(replicas.leader)
    log = replicas.followed.log
    at = Offset(offset + 1 if kind == "another offset" else offset)
    part = log.read(at, 1, upper_offset=log.log_end_offset, at_least_one_batch=True)
    records = bytearray(part.view())
    if kind == "another size":
        records = bytearray(a_batch(b"a longer value"))
        records[:8] = offset.to_bytes(8, "big")
    elif kind == "another epoch":  # outside the checksum
        records[12:16] = (read_header(records).partition_leader_epoch + 1).to_bytes(4, "big")
    elif kind == "damaged":
        records[-1] ^= 1
    elif kind == "nothing":
        records = bytearray()
    replicas.deliver(Batches(ErrorCode.none, False, offset + 1, bytes(records)))
    assert file_of(replicas.led) == found
    assert len(replicas.led.log.damage) == 1


@pytest.mark.parametrize("written", [1, 30, 70])
def test_a_repair_that_was_killed_in_the_middle_is_made_again(
    replicas: Replicas, *, written: int
) -> None:
    """The first bytes of the batch were written, all others are garbage still."""
    led = replicas.led
    offset, before = damage(led)
    path = led.log.segments[1].file.path
    position = next(
        at for at in range(len(before)) if before[at : at + 8] == offset.to_bytes(8, "big")
    )
    size = read_header(before, position).size_bytes
    garbage = bytes([0xEE]) * (size - written)
    path.write_bytes(before[: position + written] + garbage + before[position + size :])
    log = PartitionLog.open(  # as the next start finds it
        led.log.directory,
        led.id,
        led.log.options,
        WallMs(0),
        clean_shutdown=False,
        recovery_point=led.log.log_end_offset,
        log_start_offset=Offset(0),
    )
    with pytest.raises(DamagedBatch):
        log.read(Offset(offset), 1, upper_offset=log.log_end_offset, at_least_one_batch=True)
    _, answer = fetch(replicas.leader, offset)
    assert answer is None
    turns(replicas.leader)
    replicas.deliver()
    assert path.read_bytes() == before


def test_a_log_that_was_cut_meanwhile_is_left_alone(replicas: Replicas) -> None:
    offset, _ = damage(replicas.led)
    fetch(replicas.leader, offset)
    turns(replicas.leader)
    asked = [one for one in replicas.leader.link.take() if isinstance(one.request, AskBatches)]
    replicas.led.truncate_to(Offset(offset - 1))
    found = [one.file.path.read_bytes() for one in replicas.led.log.segments]
    replicas.other.link.receive(asked[0].request, asked[0].on_reply)
    turns(replicas.leader)
    assert [one.file.path.read_bytes() for one in replicas.led.log.segments] == found


@pytest.mark.parametrize("is_same", [True, False])
def test_compacted_log_takes_only_a_batch_that_it_had(tmp_path: Path, *, is_same: bool) -> None:
    made = Replicas(tmp_path, CONFIGS)
    with made.leader, made.other:
        made.led.log.cleaned_to = Offset(5)
        offset, before = damage(made.led)
        fetch(made.leader, offset)
        turns(made.leader)
        reply = None
        if not is_same:
            records = bytearray(a_batch(b"VALUE %d" % offset))
            records[:8] = offset.to_bytes(8, "big")
            reply = Batches(ErrorCode.none, False, offset + 1, bytes(records))
        made.deliver(reply)
        assert (file_of(made.led) == before) is is_same


def test_a_file_that_was_cut_is_completed(replicas: Replicas) -> None:
    led = replicas.led
    path = led.log.segments[1].file.path
    before = path.read_bytes()
    path.write_bytes(before[:150])
    size_bytes = led.log.size_bytes
    _, answer = fetch(replicas.leader, led.log.segments[1].base_offset)
    assert answer is None
    turns(replicas.leader)
    replicas.deliver()
    assert path.read_bytes() == before
    assert led.log.size_bytes == size_bytes


def test_only_committed_batches_of_the_same_topic_are_given(replicas: Replicas) -> None:
    answers: list[Batches] = []
    led = replicas.led
    append(led.log, memoryview(bytearray(a_batch(b"new"))), led.leader_epoch, WALL_MS)
    end = led.high_watermark
    assert end == RECORDS
    request = AskBatches("t", led.topic_id, 0, end - 1, end + 1)
    replicas.leader.link.receive(request, answers.append)
    other = AskBatches("t", a_topic("u").topic_id, 0, 0, 1)
    replicas.leader.link.receive(other, answers.append)
    assert [answer.code for answer in answers] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert read_header(answers[0].records).last_offset == end - 1


def test_a_replica_alone_refuses_at_once(tmp_path: Path) -> None:
    with HandlerStage(tmp_path) as stage:
        stage.update(a_topic("t", a_partition([BROKER]), configs=CONFIGS))
        for number in range(RECORDS):
            stage.connect().call(produce_to(("t", 0, a_batch(b"value %d" % number)), acks=1))
        offset, _ = damage(stage.partition("t"))
        _, answer = fetch(stage, offset)
        assert codes_of(fetched_in(answer)) == [ErrorCode.corrupt_message]
        assert a_broker(BROKER).id == BrokerId(BROKER)


def compact(partition: Partition, gone: set[int]) -> None:
    """Remove the records at these offsets from the closed segments, like compaction."""
    log = partition.log
    rebuild = ClosedRebuild(log)
    for segment in log.segments[:-1]:
        with memoryview(segment.file.view(0, segment.file.size_bytes)) as content:
            for header, batch in batches_of(content):
                if header.base_offset not in gone:
                    rebuild.add(bytes(batch))
    rebuild.finish()
    rebuild.swap()
    log.cleaned_to = Offset(log.segments[-1].base_offset)


def closed_bytes(partition: Partition) -> bytes:
    return b"".join(segment.file.path.read_bytes() for segment in partition.log.segments[:-1])


def test_closed_segments_of_a_compacted_log_are_replaced_where_replicas_differ(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    offset, _ = damage(replicas.led)
    replicas.led.log.cleaned_to = Offset(5)
    compact(replicas.followed, {3, offset})
    end, start = replicas.led.log.log_end_offset, replicas.led.log.log_start_offset
    client, answer = fetch(replicas.leader, offset)
    assert answer is None
    for _ in range(4):
        turns(replicas.leader)
        replicas.deliver()
    assert closed_bytes(replicas.led) == closed_bytes(replicas.followed)
    assert (replicas.led.log.log_start_offset, replicas.led.log.log_end_offset) == (start, end)
    assert replicas.led.log.cleaned_to == 1
    assert values_of(client.receive())[0] == b"value %d" % (offset + 1)
    assert values_of(fetch(replicas.leader, end - 1)[1]) == [b"value %d" % (end - 1)]
    assert len(replicas.led.log.damage) == 0
    assert "by those of broker 2: the log is compacted" in caplog.text


def test_a_compacted_log_that_is_cut_meanwhile_is_not_replaced(replicas: Replicas) -> None:
    offset, _ = damage(replicas.led)
    replicas.led.log.cleaned_to = Offset(5)
    compact(replicas.followed, {3, offset})
    fetch(replicas.leader, offset)
    turns(replicas.leader)
    (asked,) = replicas.leader.link.take()
    replicas.other.link.receive(asked.request, lambda answer: asked.on_reply(over_the_wire(answer)))
    turns(replicas.leader)
    (rest,) = replicas.leader.link.take()
    assert rest.request.end_offset == replicas.led.log.segments[-1].base_offset
    replicas.led.truncate_to(Offset(offset - 1))
    before = [one.file.path.read_bytes() for one in replicas.led.log.segments]
    replicas.other.link.receive(rest.request, lambda answer: rest.on_reply(over_the_wire(answer)))
    turns(replicas.leader)
    assert [one.file.path.read_bytes() for one in replicas.led.log.segments] == before
    assert not list(replicas.led.log.directory.glob("*.cleaned"))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_damaged_logs_are_not_compacted(replicas: Replicas, *, is_damaged: bool) -> None:
    policy = CONFIGS | {"cleanup.policy": "compact"}
    replicas.leader.update(a_topic("t", a_partition(BOTH), configs=policy))
    if is_damaged:
        offset, _ = damage(replicas.led)
        fetch(replicas.leader, offset)
    cleaner = replicas.leader.core.maintenance.cleaner
    cleaner.start()
    turns(replicas.leader)
    assert cleaner.counts.cleanings == (0 if is_damaged else 1)


@pytest.mark.parametrize("kept_bytes", [150, 75])
def test_a_file_that_was_cut_before_the_start_is_completed(
    replicas: Replicas, *, kept_bytes: int
) -> None:
    led = replicas.led
    segment = led.log.segments[1]
    path = segment.file.path
    before, size_bytes = path.read_bytes(), led.log.size_bytes
    path.write_bytes(before[:kept_bytes])
    led.log.files.on_repaired(segment)  # its size is that of the file, as after a start
    lost = Offset(led.log.segments[2].base_offset - 1)
    position = 0
    while position + read_header(before, position).size_bytes <= kept_bytes:
        position += read_header(before, position).size_bytes
    fetch(replicas.leader, read_header(before, position).base_offset)
    turns(replicas.leader)
    replicas.deliver()
    assert path.read_bytes() == before
    assert led.log.size_bytes == size_bytes
    assert len(led.log.damage) == 0
    assert values_of(fetch(replicas.leader, lost)[1])[0] == b"value %d" % lost
