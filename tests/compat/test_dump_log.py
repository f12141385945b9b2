"""`dump-log` prints what Kafka's own tool prints of the same files: sound, old and damaged ones."""

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from cluster.log.partition_log import PartitionLog
from cluster.log.transaction_index import AbortedTransaction, encode_transactions
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.compat.kafka_process import ToolShell, run_program
from tests.unit.log.log_builder import NOW_MS, a_batch, append, open_log

pytestmark = [pytest.mark.compat, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FIRST = "00000000000000000000"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools")) as running:
        yield running


def dump_by_kafka(shell: ToolShell, *arguments: str) -> tuple[int, str, str]:
    """Run kafka-dump-log. Returns its exit status, stdout and stderr."""
    status, stdout, stderr, _ = shell.outcome("kafka.tools.DumpLogSegments", *arguments)
    return status, stdout, stderr


def dump(*arguments: str) -> tuple[int, str, str]:
    """Run our tool. Returns its exit status, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cluster", "dump-log", *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def assert_same(shell: ToolShell, options: Sequence[str], files: Iterable[Path]) -> str:
    """Check that the two tools print the same, and return it.

    Where Kafka's tool ends with an exception, ours prints a line: a note, and exit status 0, if the
    cause is preallocated space, which is not damage.
    """
    arguments = [*options, "--files", ",".join(map(str, files))]
    theirs = dump_by_kafka(shell, *arguments)
    ours = dump(*arguments)
    assert ours[1] == theirs[1]
    is_ahead = ours[2].startswith("note: ") and "Found record size 0 smaller" in theirs[2]
    assert ours[0] == (0 if is_ahead else theirs[0])
    if "Exception" in theirs[2]:
        assert ours[2].count("\n") == 1
    else:
        assert ours[2] == theirs[2]
    return ours[1]


@pytest.fixture
def written(tmp_path: Path) -> PartitionLog:
    """A log of several segments with producers, not closed."""
    log = open_log(tmp_path)
    for n in range(40):
        append(
            log,
            a_batch(
                3, value=b"x" * 60, timestamp_ms=NOW_MS + n, producer=ProducerIdentity(7, 0, n * 3)
            ),
        )
    append(log, a_batch(2, producer=ProducerIdentity(8, 1, 2**31 - 2), is_transactional=True))
    return log


def of_kind(log: PartitionLog, *suffixes: str) -> list[Path]:
    return sorted(path for path in log.directory.iterdir() if path.suffix in suffixes)


@pytest.mark.beyond_pypi
def test_dump_of_a_closed_log_equals_kafkas(shell: ToolShell, written: PartitionLog) -> None:
    written.close(flush=True)
    aborted = [AbortedTransaction(7, 1, 5, 1), AbortedTransaction(8, 2, 9, 2)]
    (written.directory / f"{FIRST}.txnindex").write_bytes(encode_transactions(aborted))
    everything = of_kind(written, ".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    assert "producerId: 8" in assert_same(shell, ["--print-data-log"], everything)
    indexes = of_kind(written, ".index", ".timeindex")
    assert "passed sanity check" in assert_same(shell, ["--index-sanity-check"], indexes)
    assert "offset: " not in assert_same(shell, ["--verify-index-only"], indexes)


@pytest.mark.beyond_pypi
def test_files_of_a_running_broker_end_in_allocated_space(
    shell: ToolShell, written: PartitionLog
) -> None:
    active = of_kind(written, ".log")[-1]
    text = assert_same(shell, ["--deep-iteration"], [active])
    assert dump("--files", str(active))[0] == 0
    assert text.count("| offset: ") > 1


@pytest.mark.beyond_pypi
def test_dump_of_headers_markers_and_a_horizon_equals_kafkas(
    shell: ToolShell, tmp_path: Path
) -> None:
    headers = (("one", b"1"), ("two", None))
    marker = NewRecord(struct.pack(">hi", 0, 5), struct.pack(">hh", 0, 0), NOW_MS)
    horizon = bytearray(build_batch([NewRecord(None, b"gone", NOW_MS)], base_offset=3))
    horizon[22] |= 0x40  # without a new checksum: shown as not valid
    path = tmp_path / f"{FIRST}.log"
    path.write_bytes(
        build_batch([NewRecord(b"text", b"\xc3\xa9\xff", NOW_MS, headers), NewRecord(None)])
        + build_batch(
            [marker],
            base_offset=2,
            producer=ProducerIdentity(5, 1, -1),
            is_transactional=True,
            is_control=True,
        )
        + horizon
        + build_batch([NewRecord(b"later")], base_offset=9)
    )
    text = assert_same(shell, ["--print-data-log"], [path])
    assert "endTxnMarker: ABORT" in text
    assert f"OptionalLong[{NOW_MS}]" in text
    assert_same(shell, ["--print-data-log", "--skip-record-metadata"], [path])
    assert_same(shell, ["--max-bytes", "200"], [path])


@pytest.mark.beyond_pypi
def test_dump_of_old_formats_written_by_kafka_equals_kafkas(
    shell: ToolShell, tmp_path: Path
) -> None:
    run_program("OldFormats", str(tmp_path))
    logs = sorted(tmp_path.glob("old*/*.log"))
    assert len(logs) == 2
    for log in logs:
        for options in (["--print-data-log"], [], ["--deep-iteration", "--max-bytes", "300"]):
            assert "compresscodec: " in assert_same(shell, options, [log])


@pytest.mark.beyond_pypi
def test_dump_of_internal_topics_written_by_kafka_equals_kafkas(
    shell: ToolShell, tmp_path: Path
) -> None:
    run_program("InternalTopics", str(tmp_path))
    text = assert_same(
        shell, ["--offsets-decoder"], [tmp_path / "__consumer_offsets-0" / f"{FIRST}.log"]
    )
    assert '"offset":5' in text
    state = tmp_path / "__transaction_state-0" / f"{FIRST}.log"
    assert "state=Ongoing" in assert_same(shell, ["--transaction-log-decoder"], [state])


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def replace(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "cut": ("log", lambda content: content[:-10]),
    "zeros": ("log", lambda content: content + bytes(50)),
    "part of a batch": ("log", lambda content: content + content[:40]),
    "wrong entry": ("index", lambda content: content[:8] + b"\0\0\0\x09" + content[12:] + b"abc"),
    "entry beyond": ("index", lambda content: content + b"\0\0\x01\x09\x00\x10\0\0"),
    "negative": ("index", lambda _: b"\xff\xff\xff\x09\0\0\0\0"),
    "no index": ("index", lambda _: b""),
    "old time": ("timeindex", lambda content: content[:12] + struct.pack(">qi", 1, 8)),
    "no such offset": ("timeindex", lambda content: content + struct.pack(">qi", 2**60, 10)),
    "half an entry": ("timeindex", lambda content: content + b"abcde"),
}


@pytest.mark.beyond_pypi
@pytest.mark.parametrize("damage", DAMAGES)
def test_dump_of_damaged_files_equals_kafkas(
    shell: ToolShell, written: PartitionLog, damage: str
) -> None:
    written.close(flush=True)
    suffix, change = DAMAGES[damage]
    path = written.directory / f"{FIRST}.{suffix}"
    replace(path, change)
    assert_same(shell, [], [path])
    if suffix != "log":
        assert_same(shell, ["--index-sanity-check"], [path])


@pytest.mark.beyond_pypi
def test_dump_of_a_flipped_byte_equals_kafkas(shell: ToolShell, written: PartitionLog) -> None:
    written.close(flush=True)
    path = written.directory / f"{FIRST}.log"
    flip(path, 75)
    assert "isvalid: false" in assert_same(shell, ["--print-data-log"], [path])


@pytest.mark.beyond_pypi
@pytest.mark.parametrize("position", [1, 20], ids=["version", "content"])
def test_a_damaged_snapshot_is_told_in_kafkas_words(
    shell: ToolShell, written: PartitionLog, position: int
) -> None:
    """Kafka's tool ends with status 0 nevertheless, ours with 1."""
    snapshot = of_kind(written, ".snapshot")[0]
    flip(snapshot, position)
    _, theirs, problem = dump_by_kafka(shell, "--files", str(snapshot))
    status, ours, line = dump("--files", str(snapshot))
    assert (status, ours, line) == (1, theirs, f"error: {snapshot}: {problem}")


def test_dump_leaves_the_files_unchanged(written: PartitionLog) -> None:
    written.close(flush=True)
    copy = written.directory.with_name("copy-0")
    shutil.copytree(written.directory, copy)
    (copy / f"{FIRST}.index").unlink()
    before = sorted(path.name for path in copy.iterdir())
    assert dump("--print-data-log", str(copy))[0] == 0
    assert sorted(path.name for path in copy.iterdir()) == before
