"""What `import-log` says when the cluster goes away in the middle of an import."""

from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ErrorCode, Refused, UserError
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
