"""What `import-log` says when the cluster goes away in the middle of an import."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client import partition_writer
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.protocol.api import ApiKey
from cluster.records.batch import Compression, stamp_checksum
from cluster.records.builder import batch_at_offsets
from cluster.records.reader import Record
from cluster.tools.import_log import command
from cluster.tools.main import main


class LosingWriter:
    """Replaces `PartitionWriter`: one batch is acknowledged, then the cluster is gone."""

    first_offset = end_offset = 0

    def __init__(self, *_: object) -> None:
        self.acknowledged_batches = 0

    def __enter__(self) -> "LosingWriter":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def offset_range(self) -> tuple[int, int]:
        return 0, 0

    def write(self, _batch: object) -> None:
        self.acknowledged_batches = 1

    def finish(self) -> None:
        raise UserError("no broker answers")


class NoConfigs:
    """A cluster that shows no settings."""

    @staticmethod
    def connect(*_: object) -> Any:
        raise Refused(ErrorCode.cluster_authorization_failed)


def batch(first: int, *, is_damaged: bool = False) -> bytearray:
    """Two records with a gap, so that they are read; damage is inside, with a right checksum."""
    records = [Record(offset, 5, None, b"v") for offset in (first, first + 2)]
    made = batch_at_offsets(records, codec=Compression.GZIP)
    if is_damaged:
        made[-20:] = bytes(20)
        stamp_checksum(memoryview(made))
    return made


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_lost_cluster_is_told_with_how_to_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_damaged: bool,
) -> None:
    monkeypatch.setattr(command, "PartitionWriter", LosingWriter)
    monkeypatch.setattr(command, "SocketClient", NoConfigs)
    content = batch(100) + batch(103, is_damaged=is_damaged)
    (tmp_path / f"{100:020d}.log").write_bytes(content)
    words = ["--topic", "t", "--partition", "0", "--bootstrap-server", "localhost:1"]
    assert main(["import-log", str(tmp_path), *words]) == 1
    assert capsys.readouterr().err == (
        "error: no broker answers; 2 records are imported, the rest with --append"
        " --from-offset 103\n"
    )


@pytest.mark.parametrize("refused", [None, "write"])
def test_a_login_without_the_right_ends_the_import_at_once_and_is_told_the_rule(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused: str | None,
) -> None:
    class Broker:
        """Gives no producer id, or no metadata."""

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> "Broker":
            return self

        def __exit__(self, *_: object) -> None: ...

        def close(self) -> None: ...

        connect = classmethod(lambda cls, *_: cls())

        def call(self, key: ApiKey, _request: object) -> Any:
            if key is ApiKey.INIT_PRODUCER_ID:
                return SimpleNamespace(error_code=ErrorCode.cluster_authorization_failed)
            if key is ApiKey.LIST_OFFSETS:
                found = SimpleNamespace(error_code=ErrorCode.none, offset=0)
                return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])
            code = ErrorCode.none if refused else ErrorCode.topic_authorization_failed
            partition = SimpleNamespace(partition_index=0, leader_id=1)
            return SimpleNamespace(
                topics=[SimpleNamespace(error_code=code, partitions=[partition])],
                brokers=[SimpleNamespace(node_id=1, host="localhost", port=1)],
            )

    monkeypatch.setattr(partition_writer, "SocketClient", Broker)
    monkeypatch.setattr(command, "SocketClient", NoConfigs)
    (tmp_path / f"{100:020d}.log").write_bytes(batch(100))
    words = ["--topic", "t", "--partition", "0", "--bootstrap-server", "localhost:1"]
    assert main(["import-log", str(tmp_path), *words]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: not allowed to write to t-0: ")
    assert told.endswith("--allow-principal User:ANONYMOUS --producer --topic t\n")
