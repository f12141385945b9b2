"""`dump-log`, by golden texts that Kafka 3.9.1's tool prints of the same bytes."""

import json
import struct
from pathlib import Path

import pytest

from cluster.log.producer_snapshots import write_snapshot
from cluster.log.producer_state import AppendedBatch, ProducerEntry
from cluster.log.transaction_index import AbortedTransaction, encode_transactions
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import Record
from cluster.tools.main import main
from cluster.tools.stored_batches import stored_batches
from cluster.tools.stored_file import StoredFile, opened
from tests.support.old_messages import old_compressed, old_message

STAMP = 1_700_000_000_000
LOG = "00000000000000000000.log"


@pytest.fixture
def dumped(capsys: pytest.CaptureFixture[str]):
    """Runs the command; returns the exit status, stdout without the first line, and stderr."""

    def run(*words: object) -> tuple[int, list[str], list[str]]:
        status = main(["dump-log", *map(str, words)])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.splitlines()

    return run


def a_log(directory: Path, *batches: bytes | bytearray, name: str = LOG) -> Path:
    path = directory / name
    path.write_bytes(b"".join(batches))
    return path


NEW = build_batch(
    [
        NewRecord(b"hello", timestamp_ms=STAMP),
        NewRecord(None, b"k\xff", STAMP + 1, (("one", b"1"), ("two", None))),
    ],
    producer=ProducerIdentity(1000, 3, 2**31 - 1),
    leader_epoch=7,
)
MARKER = build_batch(
    [NewRecord(struct.pack(">hi", 0, 5), struct.pack(">hh", 0, 1), STAMP + 2)],
    base_offset=2,
    producer=ProducerIdentity(1000, 3, -1),
    is_transactional=True,
    is_control=True,
)
NEW_LINES = [
    "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: 1000"
    " producerEpoch: 3 partitionLeaderEpoch: 7 isTransactional: false isControl: false"
    " deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000000001 size: 93 magic: 2"
    " compresscodec: none crc: 1974497324 isvalid: true",
    "| offset: 0 CreateTime: 1700000000000 keySize: -1 valueSize: 5 sequence: 2147483647"
    " headerKeys: [] payload: hello",
    "| offset: 1 CreateTime: 1700000000001 keySize: 2 valueSize: -1 sequence: 0"
    " headerKeys: [one,two] key: k\ufffd",
    "baseOffset: 2 lastOffset: 2 count: 1 baseSequence: -1 lastSequence: -1 producerId: 1000"
    " producerEpoch: 3 partitionLeaderEpoch: -1 isTransactional: true isControl: true"
    " deleteHorizonMs: OptionalLong.empty position: 93 CreateTime: 1700000000002 size: 78 magic: 2"
    " compresscodec: none crc: 759956259 isvalid: true",
    "| offset: 2 CreateTime: 1700000000002 keySize: 4 valueSize: 6 sequence: -1 headerKeys: []"
    " endTxnMarker: COMMIT coordinatorEpoch: 5",
]


def test_batches_records_and_markers(tmp_path: Path, dumped) -> None:
    path = a_log(tmp_path, NEW, MARKER)
    first = [f"Dumping {path}", "Log starting offset: 0"]
    assert dumped("--print-data-log", path) == (0, first + NEW_LINES, [])
    assert dumped("--files", path) == (0, [*first, NEW_LINES[0], NEW_LINES[3]], [])
    deep = [line.partition(" payload")[0].partition(" key: ")[0] for line in NEW_LINES]
    assert dumped("--deep-iteration", path) == (0, first + deep, [])
    bare = [NEW_LINES[0], " payload: hello", "| key: k\ufffd", NEW_LINES[3], ""]
    assert dumped("--print-data-log", "--skip-record-metadata", path) == (0, first + bare, [])


def test_old_formats(tmp_path: Path, dumped) -> None:
    inside = [Record(4, STAMP, None, b"a"), Record(6, STAMP + 1, b"k", None)]
    path = a_log(
        tmp_path,
        old_message(Record(3, -1, b"key", b"value"), 0),
        old_compressed(inside, 1, Compression.SNAPPY, append_time_ms=STAMP + 9),
    )
    status, out, err = dumped("--print-data-log", path)
    assert (status, err) == (
        0,
        [f"Non-consecutive offsets in {path}", "  4 is followed by 6"],
    )
    assert out[2:] == [
        "offset: 3 position: 0 NoTimestampType: -1 size: 34 magic: 0 compresscodec: none"
        " crc: 592888119 isvalid: true",
        "| offset: 3 NoTimestampType: -1 keySize: 3 valueSize: 5 isValid: true crc: 592888119}"
        " key: key payload: value",
        "offset: 6 position: 34 LogAppendTime: 1700000000009 size: 108 magic: 1"
        " compresscodec: snappy crc: 440210914 isvalid: true",
        "| offset: 4 LogAppendTime: 1700000000009 keySize: -1 valueSize: 1 isValid: true"
        " crc: 1119137538} payload: a",
        "| offset: 6 LogAppendTime: 1700000000009 keySize: 1 valueSize: -1 isValid: true"
        " crc: 1814821624} key: k",
    ]


def test_a_flipped_byte_is_shown_as_not_valid(tmp_path: Path, dumped) -> None:
    damaged = bytearray(NEW)
    damaged[68] ^= 1  # of the first value
    status, out, err = dumped(a_log(tmp_path, damaged, MARKER))
    assert (status, err) == (0, [])
    assert [line.rpartition(" ")[2] for line in out[2:]] == ["false", "true"]


def test_bytes_after_the_last_whole_batch_are_counted(tmp_path: Path, dumped) -> None:
    path = a_log(tmp_path, NEW, MARKER[:-1])
    assert dumped(path)[1][-1] == f"Found {len(MARKER) - 1} invalid bytes at the end of {LOG}"
    assert dumped("--max-bytes", len(NEW), path)[1][-1] == NEW_LINES[0]


def test_space_allocated_ahead_is_a_note_after_the_batches(tmp_path: Path, dumped) -> None:
    path = a_log(tmp_path, NEW, bytes(100))
    status, out, err = dumped(path)
    assert status == 0
    assert out[2:] == NEW_LINES[:1]
    assert err == [
        f"note: {path}: the log ends at byte {len(NEW)}; 100 bytes after it are allocated ahead"
    ]
    empty = a_log(tmp_path, bytes(100))
    assert dumped(empty)[0] == 0


def test_zeros_before_other_bytes_are_damage(tmp_path: Path, dumped) -> None:
    path = a_log(tmp_path, NEW, bytes(100), b"x")
    status, out, err = dumped(path)
    assert status == 1
    assert out[2:] == NEW_LINES[:1]
    assert err == [
        f"error: {path}: Found record size 0 smaller than minimum record overhead (14)"
        f" at byte {len(NEW)}"
    ]


def test_batches_appended_while_reading_are_read(tmp_path: Path) -> None:
    path = a_log(tmp_path, NEW, bytes(len(MARKER)))
    with opened(path) as file:
        batches = stored_batches(file)
        assert next(batches).position == 0
        path.write_bytes(NEW + MARKER)
        file.forget()
        assert next(batches).position == len(NEW)


def test_a_batch_appended_before_the_check_for_zeros_is_not_damage(tmp_path: Path) -> None:
    path = a_log(tmp_path, NEW, bytes(len(MARKER)))

    class AppendedMeanwhile(StoredFile):
        def is_zero_from(self, position: int) -> bool:
            path.write_bytes(NEW + MARKER)
            self.forget()
            return super().is_zero_from(position)

    with opened(path) as file:
        file.__class__ = AppendedMeanwhile
        assert [batch.position for batch in stored_batches(file)] == [0, len(NEW)]


def an_index(directory: Path, *entries: tuple[int, int], suffix: str, form: str) -> Path:
    path = directory / f"{0:020d}.{suffix}"
    path.write_bytes(b"".join(struct.pack(form, *entry) for entry in entries))
    return path


def test_an_offset_index_and_what_contradicts_the_log(tmp_path: Path, dumped) -> None:
    a_log(tmp_path, NEW, MARKER)
    path = an_index(tmp_path, (1, 0), (3, 93), suffix="index", form=">ii")
    mismatch = [f"Mismatches in :{path}", "  Index offset: 3, log offset: 2"]
    entries = ["offset: 1 position: 0", "offset: 3 position: 93"]
    assert dumped(path) == (0, [f"Dumping {path}", *entries], mismatch)
    assert dumped("--verify-index-only", path) == (0, [f"Dumping {path}"], mismatch)
    sane = [f"Dumping {path}", f"{path} passed sanity check."]
    assert dumped("--index-sanity-check", path) == (0, sane, [])
    path.write_bytes(path.read_bytes() + b"abc")
    status, _, (line,) = dumped("--index-sanity-check", path)
    assert status == 1
    assert line.endswith("is corrupt, found 19 bytes which is neither positive nor a multiple of 8")
    path.write_bytes(b"")
    assert dumped(path) == (0, [f"Dumping {path}", f"{path} is empty."], [])


def test_a_time_index_and_what_contradicts_the_log(tmp_path: Path, dumped) -> None:
    a_log(tmp_path, NEW, MARKER)
    path = an_index(
        tmp_path, (STAMP + 1, 1), (STAMP + 5, 2), (STAMP, 1), suffix="timeindex", form=">qi"
    )
    status, out, err = dumped(path)
    assert status == 0
    assert out[1:] == [
        "timestamp: 1700000000001 offset: 1",
        "timestamp: 1700000000005 offset: 2",
        "timestamp: 1700000000000 offset: 1",
    ]
    assert err == [
        f"Found timestamp mismatch in :{path}",
        "  Index timestamp: 1700000000005, log timestamp: 1700000000002",
        "  Index timestamp: 1700000000000, log timestamp: 1700000000001",
        f"Found out of order timestamp in :{path}",
        "  Index timestamp: 1700000000000, Previously indexed timestamp: 1700000000005",
    ]
    status, _, (line,) = dumped("--index-sanity-check", path)
    assert status == 1
    assert "the last timestamp is 1700000000000 which is less than the first" in line
    path = an_index(tmp_path, (STAMP, 9), suffix="timeindex", form=">qi")
    assert dumped(path)[2] == [
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 9, found log offset: -1",
    ]


def test_snapshots(tmp_path: Path, dumped) -> None:
    busy, silent = ProducerEntry(), ProducerEntry()
    busy.epoch, busy.last_timestamp_ms, busy.transaction_offset = 1, STAMP, 10
    busy.batches.append(AppendedBatch(1, 12, 2, STAMP))
    path = write_snapshot(tmp_path, 13, {7: busy, 8: silent})
    status, out, err = dumped(path)
    assert (status, err) == (0, [])
    assert out[1] == (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset:"
        " OptionalLong[10] lastTimestamp: 1700000000000 firstSequence: 2147483647"
        " lastSequence: 1 lastOffset: 12 offsetDelta: 2 timestamp: 1700000000000"
    )
    assert out[2].startswith("producerId: 8 ")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    status, _, (line,) = dumped(path)
    assert status == 1
    assert "Snapshot is corrupt (CRC is no longer valid). Stored crc: " in line


def test_transaction_indexes(tmp_path: Path, dumped) -> None:
    path = tmp_path / f"{0:020d}.txnindex"
    path.write_bytes(encode_transactions([AbortedTransaction(7, 1, 5, 2)]))
    shown = "version: 0 producerId: 7 firstOffset: 1 lastOffset: 5 lastStableOffset: 2"
    assert dumped(path) == (0, [f"Dumping {path}", shown], [])


def test_checkpoints_and_metadata_have_a_form_of_our_own(tmp_path: Path, dumped) -> None:
    files = {
        "leader-epoch-checkpoint": (
            "0\n1\n3 17\n",
            ["version: 0 entries: 1", "epoch: 3 startOffset: 17"],
        ),
        "recovery-point-offset-checkpoint": (
            "0\n1\norders 2 30\n",
            ["version: 0 entries: 1", "topic: orders partition: 2 offset: 30"],
        ),
        "partition.metadata": ("version: 0\ntopic_id: abc", ["topic_id: abc", "version: 0"]),
        "meta.properties": ("#\nbroker.id=3\n", ["broker.id: 3"]),
    }
    for name, (content, expected) in files.items():
        path = tmp_path / name
        path.write_text(content)
        assert dumped(path) == (0, [f"Dumping {path}", *expected], [])
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n3 17\n")
    status, _, (line,) = dumped(path)
    assert (status, line) == (1, f"error: {path}: version 0, 1 rows of 2")


def test_a_directory_stands_for_its_files(tmp_path: Path, dumped) -> None:
    a_log(tmp_path, NEW)
    (tmp_path / "partition.metadata").write_text("version: 0")
    (tmp_path / "notes.txt").write_text("")
    status, out, _ = dumped(tmp_path)
    assert status == 0
    assert [line for line in out if line.startswith("Dumping")] == [
        f"Dumping {tmp_path / LOG}",
        f"Dumping {tmp_path / 'partition.metadata'}",
    ]


def test_one_unreadable_file_does_not_hide_the_others(tmp_path: Path, dumped) -> None:
    path = a_log(tmp_path, NEW)
    status, out, err = dumped(tmp_path / "00000000000000000001.log", tmp_path / "x.log", path)
    assert status == 1
    assert out[-1] == NEW_LINES[0]
    assert err == [
        f"error: cannot read {tmp_path}/00000000000000000001.log: No such file or directory",
        f"error: cannot read {tmp_path}/x.log: No such file or directory",
    ]


def test_an_unknown_file_is_passed_over(tmp_path: Path, dumped) -> None:
    path = tmp_path / "notes.txt"
    assert dumped("--files", path) == (
        0,
        [f"Dumping {path}"],
        [f"Ignoring unknown file {path}"],
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "needs files"),
        (["--value-decoder-class", "X", "a.log"], "classes of Java are not loaded here"),
        (["--offsets-decoder", "--transaction-log-decoder", "a.log"], "does not go with"),
    ],
)
def test_wrong_usage_is_status_2(words: list[str], reason: str, dumped) -> None:
    status, out, (line,) = dumped(*words)
    assert (status, out) == (2, [])
    assert reason in line


def test_an_empty_directory_is_told(tmp_path: Path, dumped) -> None:
    assert dumped(tmp_path) == (1, [], [f"error: {tmp_path} has no file of a log"])


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_offsets_of_groups_are_decoded(tmp_path: Path, dumped) -> None:
    key = struct.pack(">h", 1) + text("g") + text("orders") + struct.pack(">i", 3)
    value = struct.pack(">hqi", 3, 42, 5) + text("note") + struct.pack(">q", STAMP)
    records = [
        NewRecord(value, key, STAMP),
        NewRecord(None, key, STAMP),
        NewRecord(b"", struct.pack(">h", 50), STAMP),
        NewRecord(value[:5], key, STAMP),
    ]
    path = a_log(tmp_path, build_batch(records))
    status, out, _ = dumped("--offsets-decoder", "--skip-record-metadata", path)
    assert status == 0
    shown_key = '{"type":"1","data":{"group":"g","topic":"orders","partition":3}}'
    assert out[3:] == [
        f'| key: {shown_key} payload: {{"version":"3","data":{{"offset":42,"leaderEpoch":5,'
        f'"metadata":"note","commitTimestamp":{STAMP}}}}}',
        f"| key: {shown_key} payload: <DELETE>",
        "| key: Unknown record type 50 at offset 2, skipping.",
        "| key: Error at offset 3, skipping. Could not read record with version 3 from value's"
        " buffer due to: it ends too early.",
    ]


def test_members_of_consumer_groups_are_decoded(tmp_path: Path, dumped) -> None:
    subscription = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">i", -1)
    assignment = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">iii", 1, 3, -1)
    member = text("m") + text("c") + text("/h") + struct.pack(">i", 9)
    for content in (subscription, assignment):
        member += struct.pack(">i", len(content)) + content
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 4) + text("range")
    value += text("m") + struct.pack(">i", 1) + member
    key = struct.pack(">h", 2) + text("g")
    path = a_log(tmp_path, build_batch([NewRecord(value, key, STAMP)]))
    _, out, _ = dumped("--offsets-decoder", path)
    shown = json.loads(out[3].partition(" payload: ")[2])
    assert shown["data"]["members"] == [
        {
            "memberId": "m",
            "clientId": "c",
            "clientHost": "/h",
            "sessionTimeout": 9,
            "subscription": {"topics": ["orders"], "userData": None},
            "assignment": {
                "assignedPartitions": [{"topic": "orders", "partitions": [3]}],
                "userData": None,
            },
        }
    ]


def test_transactions_are_decoded(tmp_path: Path, dumped) -> None:
    value = struct.pack(">hqhib", 0, 8, 2, 6_000, 1) + struct.pack(">i", 1) + text("orders")
    value += struct.pack(">iiiqq", 2, 0, 1, 50, 40)
    key = struct.pack(">h", 0) + text("tx")
    path = a_log(tmp_path, build_batch([NewRecord(value, key, STAMP), NewRecord(None, key, STAMP)]))
    _, out, _ = dumped("--transaction-log-decoder", "--skip-record-metadata", path)
    assert out[3:] == [
        "| key: transaction_metadata::transactionalId=tx payload: producerId:8,producerEpoch:2,"
        "state=Ongoing,partitions=[orders-0,orders-1],txnLastUpdateTimestamp=50,txnTimeoutMs=6000",
        "| key: transaction_metadata::transactionalId=tx payload: <DELETE>",
    ]
