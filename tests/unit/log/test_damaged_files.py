"""All kinds of damage to a log's files while its broker is down.

Whatever the damage, the log opens, the records before the damage are served, no batch with a wrong
checksum is served, a log line reports the damage, and new records can be appended and read.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from cluster.log.damage import DamagedBatch
from cluster.log.partition_log import PartitionLog
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.records.batch import read_header
from cluster.records.builder import ProducerIdentity
from cluster.records.reader import read_records
from tests.support.examples import examples
from tests.unit.log.log_builder import (
    NOW_MS,
    SMALL,
    a_batch,
    append,
    offset_for_timestamp,
    open_log,
)

BATCHES: Final = 36
OPTIONS: Final = replace(SMALL, segment_bytes=600)
EXAMPLES: Final = examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
Values = dict[int, bytes]


class Opening(NamedTuple):
    """The kind of the broker's last stop."""

    clean: bool
    recovery_point: int


OPENINGS: Final = [Opening(True, 2 * BATCHES), Opening(False, 0), Opening(False, BATCHES)]


def make(home: Path) -> tuple[Path, Values]:
    """A closed log of several segments, epochs and a producer, and the written values."""
    log = open_log(home, OPTIONS)
    values: Values = {}
    for step in range(BATCHES):
        value = f"value {step}".encode()
        producer = ProducerIdentity(7, 0, 2 * step)
        batch = a_batch(2, value=value, timestamp_ms=NOW_MS + step, producer=producer)
        base = append(log, batch, epoch=step // 15).base_offset
        values |= {base: value, base + 1: value}
    log.close(flush=True)
    assert len(log.segments) > 4
    return log.directory, values


def served(
    log: PartitionLog, offset: Offset | None = None, fetches: int = 10**9
) -> tuple[Values, ErrorCode | None]:
    """The values that a consumer gets, by default from the log start, and its error."""
    found: Values = {}
    offset = log.log_start_offset if offset is None else offset
    while offset < log.log_end_offset and fetches:
        fetches -= 1
        try:
            part = log.read(offset, 500, upper_offset=log.log_end_offset, at_least_one_batch=True)
        except Refused as refused:
            return found, refused.code
        assert part.size_bytes, f"nothing at {offset}, and no error"
        assert part.next_offset > offset
        # `read_records` verifies the checksums.
        found |= {one.offset: bytes(one.value or b"") for one in read_records(part.view())}
        offset = part.next_offset
    return found, None


def check(home: Path, opening: Opening, before: Values, first_damaged: int) -> PartitionLog:
    """Open and read; `first_damaged` is the first offset that may be missing."""
    log = open_log(home, OPTIONS, clean=opening.clean, recovery_point=opening.recovery_point)
    found, code = served(log)
    assert found.items() <= before.items()
    expected = {offset: value for offset, value in before.items() if offset < first_damaged}
    assert expected.items() <= found.items()
    assert code in (None, ErrorCode.corrupt_message)
    for offset in before:  # from anywhere, not only from the beginning
        if log.log_start_offset <= offset < log.log_end_offset:
            records, _ = served(log, Offset(offset), 1)
            assert records.items() <= before.items()
            assert offset in records or offset >= first_damaged
    new = append(log, a_batch(1, value=b"new"), epoch=9)
    part = log.read(new.base_offset, 1, upper_offset=log.log_end_offset, at_least_one_batch=True)
    assert [one.value for one in read_records(part.view())] == [b"new"]
    for timestamp in (NOW_MS - 1, NOW_MS + 60, NOW_MS + 10**6):
        with suppress(DamagedBatch):
            offset_for_timestamp(log, timestamp, upper_offset=log.log_end_offset)
    log.close(flush=False)
    again = open_log(home, OPTIONS)
    found_again, _ = served(again)
    assert {key for key in found if key < new.base_offset} <= found_again.keys()
    return again


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def batch_at(path: Path, position: int) -> tuple[int, int]:
    """Base offset and place of the batch that covers a byte of an undamaged file."""
    content, start = path.read_bytes(), 0
    while True:
        header = read_header(content, start)
        if position < start + header.size_bytes:
            return header.base_offset, start
        start += header.size_bytes


@pytest.mark.slow
@pytest.mark.parametrize("opening", OPENINGS)
@given(data=st.data())
@EXAMPLES
def test_a_flipped_bit_anywhere(
    tmp_path_factory: pytest.TempPathFactory, opening: Opening, data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("flipped")
    directory, before = make(home)
    path = data.draw(st.sampled_from(logs(directory)))
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    damaged, begin = batch_at(path, position)
    is_last = damaged == max(before) - 1
    # Neither a checksum nor a later batch covers the base offset of the very last batch.
    assume(not (is_last and position - begin < 8))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    check(home, opening, before, damaged)
    shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.parametrize("opening", OPENINGS)
@given(data=st.data())
@EXAMPLES
def test_a_file_of_wrong_size(
    tmp_path_factory: pytest.TempPathFactory, opening: Opening, data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("length")
    directory, before = make(home)
    path = data.draw(st.sampled_from(logs(directory)))
    content = path.read_bytes()
    if data.draw(st.booleans()):
        size = data.draw(st.integers(0, len(content) - 1))
        damaged, _ = batch_at(path, size)
        path.write_bytes(content[:size])
    else:
        damaged = max(batch_at(path, len(content) - 1)[0] + 2, 0)
        tail = data.draw(st.sampled_from([b"x", b"nonsense" * 20, bytes(5000), content[:100]]))
        path.write_bytes(content + tail)
    check(home, opening, before, damaged)
    shutil.rmtree(home)


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_file_that_ends_between_two_batches(tmp_path: Path, opening: Opening) -> None:
    directory, before = make(tmp_path)
    path = logs(directory)[-1]
    content = path.read_bytes()
    third = batch_at(path, 2 * len(content) // 6)[1]
    path.write_bytes(content[:third])
    check(tmp_path, opening, before, int(path.stem) + 4)


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_format_number_that_is_another_by_one_bit(tmp_path: Path, opening: Opening) -> None:
    """The first batch then looks like a message of format 0."""
    directory, before = make(tmp_path)
    path = logs(directory)[0]
    content = bytearray(path.read_bytes())
    content[16] ^= 2
    path.write_bytes(content)
    check(tmp_path, opening, before, 0)


def swap(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def of_slot(directory: Path, suffix: str, slot: int) -> Path:
    return logs(directory)[slot].with_suffix(suffix)


BESIDES_THE_BATCHES: Final[dict[str, Callable[[Path], object]]] = {
    "indexes of other segments": lambda d: swap(of_slot(d, ".index", 0), of_slot(d, ".index", 2)),
    "the index of the active segment is another's": lambda d: of_slot(d, ".index", -1).write_bytes(
        of_slot(d, ".index", 0).read_bytes()
    ),
    "time indexes of other segments": lambda d: swap(
        of_slot(d, ".timeindex", 0), of_slot(d, ".timeindex", 2)
    ),
    "an index full of nonsense": lambda d: of_slot(d, ".index", 1).write_bytes(b"\x00\x01" * 400),
    "an active index full of nonsense": lambda d: of_slot(d, ".index", -1).write_bytes(
        b"\x7f\xff" * 400
    ),
    "an empty index": lambda d: of_slot(d, ".index", 1).write_bytes(b""),
    "an empty time index": lambda d: of_slot(d, ".timeindex", 1).write_bytes(b""),
    "no index": lambda d: of_slot(d, ".index", 1).unlink(),
    "zeros in place of entries": lambda d: of_slot(d, ".index", 1).write_bytes(bytes(80)),
    "no epochs": lambda d: (d / "leader-epoch-checkpoint").unlink(),
    "empty epochs": lambda d: (d / "leader-epoch-checkpoint").write_bytes(b""),
    "epochs of nonsense": lambda d: (d / "leader-epoch-checkpoint").write_bytes(b"\xff\xfe\n9"),
    "an empty snapshot": lambda d: max(d.glob("*.snapshot")).write_bytes(b""),
    "a snapshot of nonsense": lambda d: max(d.glob("*.snapshot")).write_bytes(b"\0\1" * 50),
    "no snapshot": lambda d: [path.unlink() for path in d.glob("*.snapshot")],
    "unknown files": lambda d: [
        (d / name).write_bytes(b"?") for name in ("core", "x.log", "1.log.bak", "-1.log", ".hidden")
    ],
    "unknown directories": lambda d: [
        (d / name).mkdir() for name in ("lost+found", "00000000000000000007.snapshot.d")
    ],
    "a topic id of nonsense": lambda d: (d / "partition.metadata").write_bytes(b"\xff\0"),
    "left behind": lambda d: [
        (d / f"{5:020d}.log{suffix}").write_bytes(b"x") for suffix in (".deleted", ".cleaned")
    ],
}


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("what", BESIDES_THE_BATCHES)
def test_damage_beside_the_batches_costs_no_record(
    tmp_path: Path, what: str, opening: Opening
) -> None:
    directory, before = make(tmp_path)
    BESIDES_THE_BATCHES[what](directory)

    log = check(tmp_path, opening, before, max(before) + 1)

    assert log.epochs.entries[:3] == [(0, 0), (1, 30), (2, 60)]
    assert log.producers.entries[7].batches[-1].last_offset == 2 * BATCHES - 1
    if what == "time indexes of other segments":
        return  # as in Kafka, they are looked at where they contradict the segments' offsets
    for step in range(1, BATCHES):  # the second record of a batch has the time of the next batch
        found = offset_for_timestamp(log, NOW_MS + step, upper_offset=log.log_end_offset)
        assert found == (NOW_MS + step, 2 * step - 1)


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("slot", [0, 2, -1])
def test_an_empty_segment_file_loses_at_most_the_later_records(
    tmp_path: Path, slot: int, opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    directory, before = make(tmp_path)
    path = logs(directory)[slot]
    is_last = path == logs(directory)[-1]
    path.write_bytes(b"")
    check(tmp_path, opening, before, int(path.stem))
    assert is_last or f"{path} is empty" in caplog.text


@pytest.mark.parametrize("slot", [0, 2])
def test_a_log_ends_before_a_segment_whose_files_lost_everything_with_the_power(
    tmp_path: Path, slot: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files look as if compaction had emptied it, but the machine went down."""
    directory, before = make(tmp_path)
    path = logs(directory)[slot]
    for suffix in (".log", ".index", ".timeindex"):
        path.with_suffix(suffix).write_bytes(b"")
    log = open_log(tmp_path, OPTIONS, clean=False, lacks_unsynced=True)
    assert log.log_end_offset == int(path.stem)
    assert served(log) == ({key: before[key] for key in range(int(path.stem))}, None)
    assert f"{path} is empty" in caplog.text


def test_a_segment_that_is_empty_below_the_recovery_point_was_emptied_by_compaction(
    tmp_path: Path,
) -> None:
    directory, _ = make(tmp_path)
    first, second = logs(directory)[:2]
    for suffix in (".log", ".index", ".timeindex"):
        first.with_suffix(suffix).write_bytes(b"")
    log = open_log(
        tmp_path, OPTIONS, clean=False, recovery_point=int(second.stem), lacks_unsynced=True
    )
    assert log.log_end_offset > int(second.stem)


@pytest.mark.parametrize("opening", OPENINGS)
def test_recovery_logs_damage_in_one_line(
    tmp_path: Path, opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    directory, _ = make(tmp_path)
    path = logs(directory)[2]
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    log = open_log(tmp_path, OPTIONS, clean=opening.clean, recovery_point=opening.recovery_point)
    for _ in range(3):
        served(log)
    lines = [record.getMessage() for record in caplog.records if "checksum" in record.getMessage()]
    assert len(lines) == 1
    assert str(path) in lines[0]


@pytest.mark.parametrize("value", [-5, 10**15])
@pytest.mark.parametrize("clean", [True, False])
def test_checkpoints_of_nonsense_values(tmp_path: Path, value: int, clean: bool) -> None:
    _, before = make(tmp_path)
    log = open_log(tmp_path, OPTIONS, clean=clean, recovery_point=value)
    assert served(log) == (before, None)
    assert 0 <= log.durability.recovery_point <= log.log_end_offset
