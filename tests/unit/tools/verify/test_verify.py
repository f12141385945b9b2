"""`verify`: what it finds in directories of stopped and of running brokers, and what it advises."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.datadir.state_file import write_state
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset, TopicPartition
from cluster.tools.main import main
from cluster.tools.verify.log_checks import check_log
from tests.unit.log.log_builder import NOW_MS, SMALL, a_batch, append

OPTIONS = replace(SMALL, segment_bytes=1_000)
ORDERS = TopicPartition("orders", 0)


def a_log(directory: Path, partition: TopicPartition = ORDERS, batches: int = 30) -> PartitionLog:
    log = PartitionLog.open(
        directory / str(partition),
        partition,
        OPTIONS,
        NOW_MS,
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )
    for step in range(batches):
        batch = a_batch(value=b"value %d" % step, timestamp_ms=NOW_MS + step)
        append(log, batch, 0, WallMs(NOW_MS + step))
    return log


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The directory of a cluster of two brokers; the first has two topics."""
    brokers = [tmp_path / f"broker-{number}" for number in range(2)]
    for broker in brokers:
        a_log(broker).close(flush=False)
    a_log(brokers[0], TopicPartition("other", 1)).close(flush=False)
    dirs = [{"id": number, "log_dirs": [str(path)]} for number, path in enumerate(brokers)]
    write_state(tmp_path / "cluster.json", {"data_dir": str(tmp_path), "brokers": dirs})
    return tmp_path


def verify(data_dir: Path, *words: str) -> int:
    return main(["verify", "--data-dir", str(data_dir), *words])


def flip(path: Path, position: int = 65) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def logs_of(data_dir: Path, broker: int, name: str = "orders-0") -> list[Path]:
    return sorted((data_dir / f"broker-{broker}" / name).glob("*.log"))


def test_good_logs_are_summed_up(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(data_dir) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"broker 0: {data_dir}/broker-0: 2 partitions, ")
    assert first.endswith(" MiB checked: no damage")
    assert second.startswith(f"broker 1: {data_dir}/broker-1: 1 partitions, ")


def test_damage_is_told_with_who_has_the_records(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logs_of(data_dir, 1)[0]
    flip(path)
    assert verify(data_dir) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (
        f"broker 1: orders-0: {path} is damaged from byte 0 to 75, offsets 0 to 0:"
        " checksum does not match"
    ) in lines
    assert lines[-1].startswith("Other replicas have what is damaged: a running cluster repairs it")


@pytest.mark.slow
def test_verify_reports_data_as_lost_when_no_other_broker_has_it(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for broker in (0, 1):
        flip(logs_of(data_dir, broker)[1])
    assert verify(data_dir) == 1
    lost = [one for one in capsys.readouterr().out.splitlines() if one.startswith("No other")]
    assert len(lost) == 2
    assert "of orders-0 of broker 0: restore the file from a backup" in lost[0]


def test_topics_and_brokers_may_be_left_out(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(logs_of(data_dir, 0, "other-1")[0])
    assert verify(data_dir, "--topic", "orders") == 0
    assert verify(data_dir, "--broker", "1") == 0
    assert verify(data_dir, "--broker", "0", "--topic", "other") == 1
    capsys.readouterr()
    assert verify(data_dir, "--broker", "7") == 1
    assert capsys.readouterr().err == "error: there is no broker 7: choose one of 0, 1\n"


@pytest.mark.slow
def test_json_has_all_of_it(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = logs_of(data_dir, 0)[0]
    flip(path)
    flip(logs_of(data_dir, 1)[1].with_suffix(".timeindex"), 0)
    assert verify(data_dir, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["is_good"] is False
    ours, other = found["directories"]
    (damage,) = ours["partitions"][0]["damages"]
    assert damage == {
        "file": str(path),
        "position": 0,
        "end": 75,
        "offset": 0,
        "next_offset": 1,
        "defect": "checksum does not match",
        "healthy_brokers": [1],
    }
    (index,) = other["partitions"][0]["index_defects"]
    assert ".timeindex: entry " in index


def test_directories_may_be_named_and_moved(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "copy"
    shutil.copytree(data_dir / "broker-1", moved)
    (moved / "meta.properties").write_text("version=0\nbroker.id=5\n")
    assert main(["verify", str(moved)]) == 0
    assert capsys.readouterr().out.startswith(f"broker 5: {moved}: 1 partitions")


def test_without_a_cluster_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(tmp_path) == 1
    assert main(["verify", str(tmp_path / "none")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert errors[0].startswith("error: no cluster has been started in ")
    assert errors[1].startswith("error: cannot read ")


def test_a_log_in_use_is_good_while_it_grows_rolls_and_is_deleted(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert log.segments[-1].file.path.stat().st_size > log.segments[-1].file.size_bytes
    found = check_log(ORDERS, log.directory)
    assert found.is_good
    assert found.next_offset == log.log_end_offset

    # A batch that is only half written when it is first seen.
    active = log.segments[-1].file
    batch = a_batch(value=b"half")
    with active.path.open("r+b") as file:
        file.seek(active.size_bytes)
        file.write(batch[:30])

    def complete(_seconds: float) -> None:
        with active.path.open("r+b") as file:
            file.seek(active.size_bytes)
            file.write(bytes(len(batch)))

    assert check_log(ORDERS, log.directory, complete).is_good
    shutil.rmtree(log.directory)
    assert check_log(ORDERS, log.directory).is_good
