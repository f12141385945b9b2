"""What a log directory may hold, or lack, after a disk or a person has had its way with it."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log.files import LogFiles
from cluster.log.log_directory import LogDirectory
from cluster.log.options import LogOptions
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId, TopicPartition
from tests.support.cluster_states import a_partition
from tests.unit.log.log_builder import NOW_MS, a_batch, append, read_all

NAMES: Final = [TopicPartition("orders", number) for number in range(3)]
TOPIC_ID: Final = uuid.UUID(int=7)
RECORDS: Final = 40
OPTIONS: Final = LogOptions(
    segment_bytes=2000, index_interval_bytes=100, preallocate_step_bytes=8192
)
CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class Home:
    """One log directory, and one life of a broker's table after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory: LogDirectory | None = None

    def open(self, wall_ms: WallMs = NOW_MS) -> PartitionTable:
        self.let_go()
        self.directory = LogDirectory.open(self.path, "c", 1)
        table = PartitionTable([self.directory], BrokerId(1), lambda overrides: (OPTIONS, 1))
        table.load(wall_ms)
        return table

    def let_go(self) -> None:
        if self.directory is not None:
            self.directory.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "logs")
    table = made.open()
    for name in NAMES:
        partition = table.find_or_create(name, TOPIC_ID, {}, NOW_MS)
        partition.become(a_partition([BrokerId(1)]), MonotonicMs(0))
        for _ in range(RECORDS):
            append(partition.log, a_batch())
    table.close()
    yield made
    made.let_go()


def unclean(path: Path) -> None:
    (path / ".kafka_cleanshutdown").unlink()


def nonsense(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        for name in CHECKPOINTS:
            (path / name).write_bytes(content)

    return write


DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "no checkpoints": lambda path: [(path / one).unlink(missing_ok=True) for one in CHECKPOINTS],
    "empty checkpoints": nonsense(b""),
    "checkpoints of nonsense": nonsense(b"\xff\xfe\x00"),
    "checkpoints of another version": nonsense(b"7\n1\norders 0 3\n"),
    "checkpoints that end early": nonsense(b"0\n3\norders 0 3\n"),
    "checkpoints of other partitions": nonsense(b"0\n1\nbills 9 3\n"),
    "a clean-shutdown file with content": lambda path: (path / ".kafka_cleanshutdown").write_bytes(
        b"\xff" * 99
    ),
    "unknown files": lambda path: [
        (path / one).write_bytes(b"?") for one in ("core", "orders-9", "x.tmp", ".hidden")
    ],
    "unknown directories": lambda path: [
        (path / one).mkdir() for one in ("lost+found", "orders", "orders--", "-5", ".trash")
    ],
}


@pytest.mark.parametrize("stop", ["clean", "unclean"])
@pytest.mark.parametrize("what", DAMAGES)
def test_no_record_is_lost_with_what_lies_beside_the_partitions(
    home: Home, what: str, stop: str
) -> None:
    DAMAGES[what](home.path)
    if stop == "unclean":
        unclean(home.path)
    table = home.open()
    assert sorted(partition.id for partition in table) == NAMES
    for partition in table:
        assert len(read_all(partition.log)) == RECORDS
        assert 0 <= partition.high_watermark <= RECORDS
    table.close()
    assert sum(len(read_all(partition.log)) for partition in home.open()) == 3 * RECORDS


@pytest.mark.parametrize("name", ["partition.metadata", f"{0:020d}.log", "leader-epoch-checkpoint"])
def test_a_partition_that_cannot_be_read_is_offline_alone_and_comes_back_with_its_file(
    home: Home, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = home.path / str(NAMES[1]) / name
    content = file.read_bytes()
    file.unlink()
    file.mkdir()
    for _ in range(2):
        table = home.open()
        assert sorted(partition.id for partition in table) == [NAMES[0], NAMES[2]]
        assert table.offline.find(NAMES[1]) is not None
        lines = [one for one in caplog.records if str(NAMES[1]) in one.getMessage()]
        assert len(lines) == 1
        table.close()
        caplog.clear()
    file.rmdir()
    file.write_bytes(content)
    found = home.open().find(NAMES[1])
    assert found is not None
    assert len(read_all(found.log)) == RECORDS
    assert found.high_watermark == 0, "nobody had checkpointed it"


def test_a_clock_set_back_changes_nothing(home: Home) -> None:
    unclean(home.path)
    table = home.open(WallMs(5))
    for partition in table:
        assert len(read_all(partition.log)) == RECORDS
        append(partition.log, a_batch(timestamp_ms=5), 1, WallMs(6))
        assert len(read_all(partition.log)) == RECORDS + 1


def test_a_disk_that_is_full_when_checkpoints_are_written_leaves_the_old_ones(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = home.open()
    table.write_checkpoints()
    before = {name: (home.path / name).read_bytes() for name in CHECKPOINTS[:3]}

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    for partition in table:
        append(partition.log, a_batch(), 1)
    monkeypatch.setattr(LogFiles, "write", staticmethod(refuse))
    with pytest.raises(StorageFailed, match="No space left"):
        table.write_checkpoints()
    monkeypatch.undo()
    assert {name: (home.path / name).read_bytes() for name in before} == before
    assert len(table) == 3
