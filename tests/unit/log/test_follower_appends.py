"""However a leader's batches arrive, one by one or many at once, a follower's log is the same."""

import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cluster.log.partition_log import PartitionLog
from cluster.log.replicated import check_replicated
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.records.batch import (
    CONTROL_BIT,
    MAX_INT32,
    BatchHeader,
    batches_of,
    checksum,
    stamp_checksum,
)
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import records_of_batch
from tests.support.examples import examples
from tests.unit.log.log_builder import NOW_MS, SMALL, open_log

OPTIONS = replace(SMALL, segment_bytes=1 << 20)
ABORT = struct.pack(">hh", 0, 0)
MARKER = struct.pack(">hi", 0, 5)


class Step(NamedTuple):
    """A batch of the leader, and what happens to the follower before it."""

    record_count: int
    size: int
    producer_id: int
    is_transactional: bool
    is_marker: bool
    new_epoch: bool
    gap: int
    """So many offsets before the batch were compacted away."""
    begins_call: bool
    rolls: bool
    keeps: float
    """The part of the log that a truncation leaves."""


STEPS = st.lists(
    st.builds(
        Step,
        record_count=st.integers(1, 4),
        size=st.integers(0, 120),
        producer_id=st.integers(-1, 2),
        is_transactional=st.booleans(),
        is_marker=st.integers(0, 3).map(lambda drawn: drawn == 0),
        new_epoch=st.integers(0, 3).map(lambda drawn: drawn == 0),
        gap=st.sampled_from([0, 0, 0, 2]),
        begins_call=st.booleans(),
        rolls=st.integers(0, 7).map(lambda drawn: drawn == 0),
        keeps=st.sampled_from([1.0] * 6 + [0.0, 0.3, 0.9]),
    ),
    min_size=1,
    max_size=25,
)


class Leader:
    """Builds the batches of a leader's log."""

    def __init__(self) -> None:
        self.epoch = 0
        self.sequences = [0, 0, 0]

    def batch(self, step: Step, end: int) -> bytearray:
        """The batch of a step, where the log ends at an offset before it."""
        self.epoch += step.new_epoch
        producer, count = ProducerIdentity(), step.record_count
        is_marker = step.is_marker and step.producer_id >= 0
        records = [NewRecord(bytes(step.size), None, NOW_MS + end)] * count
        if is_marker:
            producer = ProducerIdentity(step.producer_id, 0, -1)
            records = [NewRecord(MARKER, ABORT, NOW_MS + end)]
        elif step.producer_id >= 0:
            producer = ProducerIdentity(step.producer_id, 0, self.sequences[step.producer_id])
            self.sequences[step.producer_id] += count
        return build_batch(
            records,
            base_offset=end + step.gap,
            producer=producer,
            leader_epoch=self.epoch,
            is_transactional=is_marker or (step.is_transactional and step.producer_id >= 0),
            is_control=is_marker,
        )


@given(steps=STEPS)
@examples(100)
def test_batches_one_by_one_and_together_make_the_same_log(steps: list[Step]) -> None:
    home = Path(tempfile.mkdtemp())
    try:
        one, many = open_log(home / "one", OPTIONS), open_log(home / "many", OPTIONS)
        leader, waiting = Leader(), bytearray()
        for step in steps:
            cut = Offset(round(one.log_end_offset * step.keeps))
            if waiting and (step.begins_call or step.rolls or cut < one.log_end_offset):
                many.append_as_follower(memoryview(bytes(waiting)), NOW_MS)
                waiting.clear()
                assert facts(many) == facts(one)
            if cut < one.log_end_offset:
                one.truncate_to(cut)
                many.truncate_to(cut)
            if step.rolls:
                one.roll(NOW_MS)
                many.roll(NOW_MS)
            batch = leader.batch(step, one.log_end_offset)
            one.append_as_follower(memoryview(bytes(batch)), NOW_MS)
            waiting += batch
        many.append_as_follower(memoryview(bytes(waiting)), NOW_MS)
        assert facts(many) == facts(one)
        one.close(flush=False)
        many.close(flush=False)
        assert files(many) == files(one)
    finally:
        shutil.rmtree(home)


def facts(log: PartitionLog) -> object:
    """What a log says of itself."""
    active = log.files.active
    return (
        (log.log_start_offset, log.log_end_offset, log.size_bytes),
        (log.epochs.entries, log.epochs.written),
        {
            number: (entry.epoch, entry.last_sequence, entry.transaction_offset, [*entry.batches])
            for number, entry in log.producers.entries.items()
        },
        (log.transactions.first_open, log.transactions.aborted_in(0, log.log_end_offset)),
        (active.base_offset, active.max_timestamp_ms, active.max_timestamp_offset),
    )


def files(log: PartitionLog) -> dict[str, bytes]:
    """The content of all files of a log."""
    return {path.name: path.read_bytes() for path in log.directory.iterdir()}


def checked_plainly(records: memoryview, next_offset: int) -> list[BatchHeader]:
    """The rules of `check_replicated`, one after the other."""
    headers: list[BatchHeader] = []
    size = 0
    for header, batch in batches_of(records):
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise Refused(
                ErrorCode.corrupt_message,
                f"replicated offset {header.base_offset} where {next_offset} comes next",
            )
        if checksum(batch) != header.crc:
            raise Refused(
                ErrorCode.corrupt_message,
                f"wrong checksum of the replicated batch at offset {header.base_offset}",
            )
        first = (headers or [header])[0].base_offset
        if header.last_offset > 2**63 - 2 or header.last_offset - first > MAX_INT32:
            raise Refused(
                ErrorCode.corrupt_message,
                f"replicated offsets {first} to {header.last_offset} fit in no segment",
            )
        if header.producer_id >= 0 and header.attributes & CONTROL_BIT:
            list(records_of_batch(header, batch))
        headers.append(header)
        size += len(batch)
        next_offset = header.last_offset + 1
    if size != len(records):
        raise Refused(
            ErrorCode.corrupt_message, f"{len(records) - size} bytes after the last whole batch"
        )
    return headers


@given(
    steps=st.lists(STEPS.map(lambda steps: steps[0]), min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=4))),
    is_checksum_right=st.booleans(),
    cut=st.integers(0, 80),
    is_cut=st.booleans(),
    first_offset=st.sampled_from([0, 0, 0, 1, 2**31, 2**63 - 3]),
)
@examples(300)
def test_damaged_batches_are_refused_for_the_reason_that_the_rules_give(
    steps: list[Step],
    changes: list[tuple[int, bytes]],
    is_checksum_right: bool,
    cut: int,
    is_cut: bool,
    first_offset: int,
) -> None:
    leader, run, end = Leader(), bytearray(), 0
    for step in steps:
        batch = leader.batch(step, end)
        end += step.gap + (1 if step.is_marker and step.producer_id >= 0 else step.record_count)
        run += batch
    for place, content in changes:
        at = place % len(run)
        run[at : at + len(content)] = content[: len(run) - at]
    if is_checksum_right and len(run) >= 61:
        position = 0
        while position + 61 <= len(run):
            size = 12 + struct.unpack_from(">i", run, position + 8)[0]
            if size < 61 or position + size > len(run):
                break
            stamp_checksum(memoryview(run)[position : position + size])
            position += size
    if is_cut:
        del run[len(run) - cut :]
    records = memoryview(bytes(run))
    assert outcome(records, first_offset, is_plain=False) == outcome(
        records, first_offset, is_plain=True
    )


def outcome(records: memoryview, first_offset: int, *, is_plain: bool) -> object:
    try:
        return (checked_plainly if is_plain else check_replicated)(records, first_offset)
    except Refused as refused:
        return refused.code, refused.detail
