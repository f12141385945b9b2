"""A broker that dies during a roll, between two writes or within one, loses no record."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.log.files import LogFiles
from cluster.log.partition_log import PartitionLog
from cluster.model.errors import StorageFailed
from cluster.records.builder import ProducerIdentity
from tests.unit.log.log_builder import (
    SMALL,
    a_batch,
    append,
    crashed_copy,
    open_log,
    read_all,
)

CALLS: Final = ["truncate", "open", "write", "rename"]
"""All by which a roll changes files."""


class Killed(BaseException):
    """The process is killed at this point."""


class Steps:
    """Counts the calls that change files, and fails at one of them."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, failure: Callable[[], BaseException]
    ) -> None:
        self._failure = failure
        self.left = -1
        for name in CALLS:
            counted = self._counted(getattr(LogFiles, name), name)
            monkeypatch.setattr(LogFiles, name, staticmethod(counted))

    def _counted(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            is_read = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR)
            if self.left >= 0 and not is_read:
                if self.left == 0:
                    self.left = -1
                    if name == "write":  # half of it is written
                        descriptor, content = arguments
                        call(descriptor, content[: len(content) // 2])
                    raise self._failure()
                self.left -= 1
            return call(*arguments, **named)

        return counted


def filled(home: Path) -> tuple[PartitionLog, int]:
    """A log that rolls with the next batch, and its number of batches."""
    log = open_log(home)
    for step in itertools.count():
        batch = a_batch(2, producer=ProducerIdentity(7, 0, 2 * step))
        append(log, batch, epoch=step // 10)
        if log.segments[-1].file.size_bytes + len(batch) > SMALL.segment_bytes:
            return log, step + 1
    raise AssertionError


def steps_of_a_roll(
    tmp_path: Path, steps: Steps, failure: type[BaseException]
) -> Iterator[tuple[PartitionLog, int]]:
    """Logs after a roll that failed at its first step, its second step, and so on."""
    for number in itertools.count():
        log, count = filled(tmp_path / str(number))
        segments = len(log.segments)
        steps.left = number
        try:
            append(log, a_batch(2, producer=ProducerIdentity(7, 0, 2 * count)), epoch=count // 10)
        except failure:
            yield log, count
        else:
            assert steps.left >= 0, "the failure was passed over"
            assert len(log.segments) == segments + 1
            assert number > 4, "a roll has more steps"
            return


def test_a_kill_at_every_step_of_a_roll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, Killed)
    for number, (log, count) in enumerate(steps_of_a_roll(tmp_path / "logs", steps, Killed)):
        records = 2 * count
        home = crashed_copy(log, tmp_path / f"crash{number}")
        again = open_log(home, clean=False)
        assert (again.log_end_offset, len(read_all(again))) == (records, records)
        assert again.producers.entries[7].batches[-1].last_offset == records - 1
        assert again.epochs.latest == (count - 1) // 10
        following = a_batch(2, producer=ProducerIdentity(7, 0, records))
        assert append(again, following, epoch=9).base_offset == records
        again.close(flush=False)
        assert len(read_all(open_log(home))) == records + 2


def test_a_disk_that_is_full_at_every_step_of_a_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch, lambda: OSError(28, "No space left on device"))
    for log, count in steps_of_a_roll(tmp_path, steps, StorageFailed):
        records = 2 * count
        assert (log.log_end_offset, len(read_all(log))) == (records, records)
        following = a_batch(2, producer=ProducerIdentity(7, 0, records))
        assert append(log, following, epoch=9).base_offset == records
        assert len(read_all(log)) == records + 2
        log.close(flush=False)
        assert len(read_all(open_log(log.directory.parent))) == records + 2
