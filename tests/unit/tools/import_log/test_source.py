"""What `import-log` takes from a partition's directory, and where it finds it damaged."""

import fcntl
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.model.errors import UserError
from cluster.model.ids import TopicPartition
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import Record, read_records
from cluster.records.renumber import stamp_producer
from cluster.tools.import_log.source import Source, check, parts
from tests.support.old_messages import old_compressed, old_message

STAMP = 1_700_000_000_000


def a_partition(home: Path, *segments: tuple[int, bytes | bytearray]) -> Path:
    directory = home / "orders-3"
    directory.mkdir()
    for base, content in segments:
        (directory / f"{base:020d}.log").write_bytes(content)
    return directory


def plain(offset: int, *values: str) -> bytearray:
    return build_batch(
        [NewRecord(value.encode(), None, STAMP) for value in values], base_offset=offset
    )


def transactional(offset: int, producer_id: int, value: str) -> bytearray:
    return build_batch(
        [NewRecord(value.encode(), None, STAMP)],
        base_offset=offset,
        producer=ProducerIdentity(producer_id, 0, 0),
        is_transactional=True,
    )


def marker(offset: int, producer_id: int, kind: int) -> bytearray:
    return build_batch(
        [NewRecord(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, kind), STAMP)],
        base_offset=offset,
        producer=ProducerIdentity(producer_id, 0, -1),
        is_transactional=True,
        is_control=True,
    )


def values(source: Source) -> list[str]:
    """The values that would be produced."""
    found: list[Record] = []
    for part in parts(source):
        stamp_producer(part.batch, ProducerIdentity(1, 0, 0))
        found += read_records(part.batch.content)
    return [(record.value or b"").decode() for record in found]


def test_segments_are_read_in_order(tmp_path: Path) -> None:
    directory = a_partition(tmp_path, (2, plain(2, "c")), (0, plain(0, "a", "b")), (3, b""))
    source = check(directory)
    assert source.partition == TopicPartition("orders", 3)
    assert values(source) == ["a", "b", "c"]
    assert source.damage is None
    assert [part.next_offset for part in parts(source)] == [2, 3]


def test_old_formats_are_converted(tmp_path: Path) -> None:
    inside = [Record(1, STAMP, None, b"b"), Record(2, STAMP, None, b"c")]
    content = (
        old_message(Record(0, -1, None, b"a"), 0)
        + old_compressed(inside, 1, Compression.GZIP)
        + plain(3, "d")
    )
    source = check(a_partition(tmp_path, (0, content)))
    assert values(source) == ["a", "b", "c", "d"]
    assert source.converted_records == 3


def test_only_committed_transactions_are_taken(tmp_path: Path) -> None:
    content = (
        transactional(0, 7, "committed")
        + transactional(1, 8, "aborted")
        + plain(2, "plain")
        + marker(3, 7, 1)
        + marker(4, 8, 0)
        + transactional(5, 8, "committed later")
        + transactional(6, 7, "open")
    )
    directory = a_partition(tmp_path, (0, content), (7, marker(7, 8, 1)))
    source = check(directory)
    assert values(source) == ["committed", "plain", "committed later"]
    left_out = source.left_out
    assert (left_out.control_batches, left_out.aborted_records, left_out.open_records) == (3, 1, 1)


@pytest.mark.parametrize(
    ("checkpoint", "asked", "expected"),
    [("0", 0, "abc"), ("1", 0, "bc"), ("2", 1, "c"), ("1", 2, "c"), ("nonsense", 0, "abc")],
)
def test_records_before_the_log_start_are_left_out(
    tmp_path: Path, checkpoint: str, asked: int, expected: str
) -> None:
    directory = a_partition(tmp_path, (0, plain(0, "a", "b") + plain(2, "c")))
    content = f"0\n1\norders 3 {checkpoint}\n"
    (tmp_path / "log-start-offset-checkpoint").write_text(content)
    source = check(directory, asked)
    assert "".join(values(source)) == expected
    assert source.left_out.earlier_records == 3 - len(expected)


GOOD = plain(0, "a")


@pytest.mark.parametrize(
    ("segments", "taken", "reason"),
    [
        ([(0, GOOD + plain(1, "b")[:-2])], ["a"], "the last 67 bytes are not a whole batch"),
        ([(0, GOOD + bytes(8) + b"\0\0\0\x05" + bytes(9))], ["a"], "Found record size 5 smaller"),
        (
            [(0, GOOD + bytes(plain(1, "b")[:-1]) + b"?"), (2, plain(2, "c"))],
            ["a"],
            "checksum does not match",
        ),
        ([(0, GOOD + bytes(100)), (1, plain(1, "b"))], ["a"], "only zeros follow"),
        (
            [(0, GOOD + old_message(Record(1, 1, None, b"?"), 1, codec=Compression.GZIP))],
            ["a"],
            "gzip",
        ),
    ],
    ids=["torn", "garbage", "flipped", "zeros before the last segment", "inside"],
)
def test_batches_before_the_damage_are_imported(
    tmp_path: Path, segments: Sequence[tuple[int, bytes]], taken: list[str], reason: str
) -> None:
    directory = a_partition(tmp_path, *segments)
    source = check(directory)
    assert source.damage is not None
    assert source.damage.startswith(f"{directory}/{0:020d}.log is damaged at byte {len(GOOD)}: ")
    assert reason in source.damage
    assert values(source) == taken


def test_space_allocated_ahead_is_no_damage(tmp_path: Path) -> None:
    source = check(a_partition(tmp_path, (0, GOOD + bytes(5_000))))
    assert source.damage is None
    assert values(source) == ["a"]


def test_a_directory_that_is_not_a_partition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not the directory of a partition"):
        check(tmp_path)
    with pytest.raises(UserError, match="is not a directory"):
        check(tmp_path / "absent")


def test_the_directory_of_a_running_broker_is_refused(tmp_path: Path) -> None:
    directory = a_partition(tmp_path, (0, GOOD))
    with (tmp_path / ".lock").open("w") as lock:
        check(directory)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="is in use by a broker"):
            check(directory)
