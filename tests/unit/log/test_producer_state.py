"""Sequence checks of idempotent producers, and snapshot files."""

from pathlib import Path

import pytest

from cluster.log.partition_log import PartitionLog
from cluster.log.producer_snapshots import (
    DamagedSnapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_offsets,
    write_snapshot,
)
from cluster.log.producer_state import ProducerState, Verification
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.records.batch import BatchHeader, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.unit.log.log_builder import (
    NOW_MS,
    SMALL,
    a_batch,
    append,
    crashed_copy,
    open_log,
)

MAX_SEQUENCE = 2**31 - 1


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, in_txn: bool = False
) -> BatchHeader:
    producer = ProducerIdentity(producer_id, epoch, sequence)
    return read_header(
        build_batch(
            [NewRecord(b"", None, NOW_MS)] * count, producer=producer, is_transactional=in_txn
        )
    )


class Partition:
    """Checks and records batches as a log does."""

    def __init__(self) -> None:
        self.state = ProducerState(expiration_ms=1000)
        self.end = 0

    def write(
        self, batch: BatchHeader, verification: Verification | None = None
    ) -> tuple[int, bool]:
        repeated = self.state.check(batch, verification)
        if repeated is not None:
            return repeated.base_offset, True
        base = self.end
        self.state.record(batch, base, batch.max_timestamp)
        self.end += batch.record_count
        return base, False

    def refusal(self, batch: BatchHeader, verification: Verification | None = None) -> ErrorCode:
        with pytest.raises(Refused) as raised:
            self.write(batch, verification)
        return raised.value.code

    def verify(self, sequence: int = 0, *, epoch: int = 0, is_added: bool = True) -> Verification:
        return self.state.begin_verification(7, epoch, sequence, NOW_MS, is_added=is_added)

    def end_transaction(self, *, epoch: int = 0) -> None:
        marker = build_batch(
            [NewRecord(b"\0\0\0\0\0\x09", b"\0\0\0\1", NOW_MS)],
            base_offset=self.end,
            producer=ProducerIdentity(7, epoch, -1),
            is_transactional=True,
            is_control=True,
        )
        self.state.replay(read_header(marker), memoryview(marker))
        self.end += 1


def test_the_last_five_batches_are_known_again() -> None:
    partition = Partition()
    for step in range(7):
        assert partition.write(header(step * 3, 3)) == (step * 3, False)
    for step in range(2, 7):
        assert partition.write(header(step * 3, 3)) == (step * 3, True)
    for step in range(2):
        code = partition.refusal(header(step * 3, 3))
        assert code is ErrorCode.out_of_order_sequence_number


def test_a_repeated_sequence_of_another_length_is_no_duplicate() -> None:
    partition = Partition()
    partition.write(header(0, 3))
    assert partition.refusal(header(0, 2)) is ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("sequence", [2, 4, 100])
def test_gaps_and_overlaps_are_refused(sequence: int) -> None:
    partition = Partition()
    partition.write(header(0, 3))
    assert partition.refusal(header(sequence)) is ErrorCode.out_of_order_sequence_number
    assert partition.write(header(3)) == (3, False)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Partition().write(header(1234)) == (0, False)


def test_a_new_epoch_begins_at_zero_and_fences_the_old() -> None:
    partition = Partition()
    partition.write(header(0, 5))
    assert partition.refusal(header(5, epoch=1)) is ErrorCode.out_of_order_sequence_number
    assert partition.write(header(0, epoch=1)) == (5, False)
    assert partition.refusal(header(5, epoch=0)) is ErrorCode.invalid_producer_epoch


def test_sequences_wrap_to_zero() -> None:
    partition = Partition()
    partition.write(header(MAX_SEQUENCE - 1, 1))
    assert partition.write(header(MAX_SEQUENCE, 3)) == (1, False)
    assert partition.write(header(MAX_SEQUENCE, 3)) == (1, True)
    assert partition.write(header(2)) == (4, False)
    other = Partition()
    other.write(header(MAX_SEQUENCE, 1))
    assert other.write(header(0)) == (1, False)


def test_producers_do_not_know_each_other() -> None:
    partition = Partition()
    partition.write(header(0, producer_id=1))
    partition.write(header(0, producer_id=2))
    assert partition.write(header(1, producer_id=1)) == (2, False)


def test_idle_producers_expire_unless_in_a_transaction() -> None:
    partition = Partition()
    partition.write(header(0, producer_id=1))
    partition.write(header(0, producer_id=2, in_txn=True))
    assert partition.state.expire(WallMs(NOW_MS + 999)) == 0
    assert partition.state.expire(WallMs(NOW_MS + 1000)) == 1
    assert partition.state.entries.keys() == {2}


def test_a_transaction_is_open_until_its_marker() -> None:
    partition = Partition()
    partition.write(header(0, producer_id=1))
    partition.write(header(0, 2, in_txn=True))
    assert partition.state.first_undecided_offset == 1
    assert partition.refusal(header(2)) is ErrorCode.invalid_txn_state
    partition.end_transaction()
    assert partition.state.first_undecided_offset is None
    entry = partition.state.entries[7]
    assert (entry.coordinator_epoch, entry.last_sequence) == (9, 1)


# Verifications of transactions


def test_a_marker_ends_the_verification_of_its_epoch_and_of_earlier_ones() -> None:
    partition = Partition()
    earlier, same, later = (partition.verify(epoch=epoch, is_added=False) for epoch in (2, 3, 4))
    partition.end_transaction(epoch=3)
    assert [each.is_valid for each in (earlier, same, later)] == [False, False, True]
    assert partition.refusal(header(0, epoch=3, in_txn=True), same) is ErrorCode.invalid_txn_state
    partition.write(header(0, epoch=4, in_txn=True), later)


def test_the_marker_of_version_2_leaves_the_verification_of_the_next_transaction() -> None:
    """Its epoch is that of the next transaction, whose first batch may already be verified."""
    partition = Partition()
    partition.write(header(0, in_txn=True), partition.verify())
    following = partition.verify(epoch=1)
    partition.end_transaction(epoch=1)
    partition.write(header(0, epoch=1, in_txn=True), following)
    assert partition.state.has_open_transaction(7, 1)


def test_batches_that_were_verified_together_need_that_transaction() -> None:
    partition = Partition()
    shared = partition.verify(is_added=False)
    assert partition.verify(1, is_added=False) is shared
    partition.write(header(0, in_txn=True), shared)
    partition.write(header(1, in_txn=True), shared)
    partition.end_transaction()
    assert partition.refusal(header(2, in_txn=True), shared) is ErrorCode.invalid_txn_state


def test_a_verification_of_a_wrong_epoch_does_not_disturb_the_producer() -> None:
    partition = Partition()
    right, wrong = partition.verify(epoch=5), partition.verify(epoch=6)
    assert partition.verify(epoch=5) is right
    partition.write(header(0, epoch=5, in_txn=True), right)
    assert wrong.is_valid  # it would be refused by the coordinator


def test_an_epoch_before_the_last_written_is_refused_before_its_verification() -> None:
    partition = Partition()
    partition.write(header(0, epoch=5))
    with pytest.raises(Refused) as raised:
        partition.verify(epoch=4)
    assert raised.value.code is ErrorCode.invalid_producer_epoch


def test_a_transaction_begins_with_the_lowest_verified_sequence() -> None:
    partition = Partition()
    partition.verify(5, is_added=False)
    shared = partition.verify(3, is_added=False)
    assert (
        partition.refusal(header(5, in_txn=True), shared) is ErrorCode.out_of_order_sequence_number
    )
    partition.write(header(3, in_txn=True), shared)


@pytest.mark.parametrize("is_added", [False, True])
def test_a_new_producer_of_version_2_begins_with_sequence_0(is_added: bool) -> None:
    """Its epoch is new, so no batch of it can have been deleted."""
    partition = Partition()
    verification = partition.verify(3, is_added=is_added)
    if is_added:
        assert (
            partition.refusal(header(3, in_txn=True), verification)
            is ErrorCode.out_of_order_sequence_number
        )
    else:
        partition.write(header(3, in_txn=True), verification)


def test_verifications_expire_with_idle_producers() -> None:
    partition = Partition()
    verification = partition.verify()
    partition.state.expire(WallMs(NOW_MS + 999))
    assert verification.is_valid
    partition.state.expire(WallMs(NOW_MS + 1000))
    assert not verification.is_valid
    assert partition.verify() is not verification


def test_idle_producers_of_a_log_expire_in_steps_between_which_it_changes() -> None:
    state = ProducerState(expiration_ms=1000)
    one = header(0)
    for producer_id in range(1_200):
        state.record(one._replace(producer_id=producer_id), producer_id, NOW_MS)
    steps = state.expiring_steps(WallMs(NOW_MS + 1000))
    sizes = [len(state.entries)]
    for _ in steps:
        sizes.append(len(state.entries))
        if len(sizes) == 2:  # one writes again, and one is new
            state.record(header(1)._replace(producer_id=1_199), 2_000, NOW_MS + 1000)
            state.record(one._replace(producer_id=5_000), 2_001, NOW_MS)
    assert sizes == [1_200, 700, 201]
    assert set(state.entries) == {1_199, 5_000}
    steps = state.expiring_steps(WallMs(NOW_MS + 1000))
    state.clear()
    assert list(steps) == []


# Snapshots


def test_snapshot_layout() -> None:
    """Field by field after Kafka's ProducerStateManager: version, CRC-32C, count, 46 bytes each."""
    state = ProducerState(1000)
    state.record(header(4, 3, epoch=2), 100, NOW_MS)
    content = encode_snapshot(state.entries)
    assert len(content) == 2 + 4 + 4 + 46
    assert content[:2] == b"\0\1"
    assert content[6:].hex() == (
        "00000001"  # entries
        "0000000000000007"  # producer id
        "0002"  # epoch
        "00000006"  # last sequence
        "0000000000000066"  # last offset
        "00000002"  # offset delta
        f"{NOW_MS:016x}"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # no open transaction
    )


def test_snapshot_round_trip_keeps_the_last_batch(tmp_path: Path) -> None:
    partition = Partition()
    for sequence in range(3):
        partition.write(header(sequence))
    partition.write(header(0, 2, producer_id=8, in_txn=True))
    write_snapshot(tmp_path, 5, partition.state.entries)
    assert snapshot_offsets(tmp_path) == [5]
    partition.state.restore(read_snapshot(tmp_path, 5), 5)
    assert partition.write(header(2)) == (2, True)
    assert partition.write(header(3)) == (5, False)
    assert partition.state.first_undecided_offset == 3


def test_damaged_snapshots_are_reported() -> None:
    partition = Partition()
    partition.write(header(0))
    content = encode_snapshot(partition.state.entries)
    for size in range(len(content)):
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(content[:size])
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(bytes(damaged))


# Through a log


def write(log: PartitionLog, sequence: int, count: int = 1) -> tuple[int, bool]:
    producer = ProducerIdentity(7, 0, sequence)
    appended = append(log, a_batch(count, producer=producer))
    return appended.base_offset, appended.is_duplicate


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshots", ["kept", "lost", "damaged"])
def test_duplicates_are_known_after_a_restart(tmp_path: Path, clean: bool, snapshots: str) -> None:
    log = open_log(tmp_path)
    for sequence in range(0, 120, 2):
        write(log, sequence, 2)
    home = tmp_path
    if clean:
        log.close(flush=True)
    else:
        home = crashed_copy(log, tmp_path / "crash")
    directory = home / log.directory.name
    for offset in snapshot_offsets(directory):
        path = directory / f"{offset:020d}.snapshot"
        if snapshots == "lost":
            path.unlink()
        elif snapshots == "damaged":
            path.write_bytes(path.read_bytes()[:-1])
    again = open_log(home, clean=clean)
    assert write(again, 118, 2) == (118, True)
    assert write(again, 120) == (120, False)


def test_truncation_takes_sequences_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(100):
        write(log, sequence)
    log.truncate_to(Offset(60))
    assert write(log, 59) == (59, True)
    assert write(log, 60) == (60, False)


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 0)
    log.close(flush=True)
    later = NOW_MS + SMALL.producer_id_expiration_ms
    assert open_log(tmp_path, wall_ms=WallMs(later)).producers.entries == {}
