"""Invalid records from a leader are refused before they are written."""

import struct
from pathlib import Path

import pytest

from cluster.log.replicated import check_replicated
from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import stamp_checksum
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.unit.log.log_builder import NOW_MS, a_batch, all_bytes, append, open_log

MARKER_VALUE = struct.pack(">hi", 0, 5)


def at(offset: int, count: int = 1) -> bytearray:
    return build_batch([NewRecord(b"v")] * count, base_offset=offset)


def control(value: bytes) -> bytearray:
    return build_batch(
        [NewRecord(value, b"\0\0\0\1")],
        producer=ProducerIdentity(9, 0, -1),
        is_transactional=True,
        is_control=True,
    )


def with_records_cut(batch: bytearray) -> bytearray:
    """Set a valid checksum over a record that announces more bytes than it has."""
    batch[61] = 0x7E
    stamp_checksum(memoryview(batch))
    return batch


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(at(0) + at(2**31), id="further-apart-than-an-index-can-tell"),
        pytest.param(at(2**63 - 1), id="no-offset-comes-after-it"),
        pytest.param(at(2**63 - 2, count=5), id="ends-beyond-all-offsets"),
        pytest.param(with_records_cut(control(MARKER_VALUE)), id="marker-that-is-none"),
    ],
)
def test_replicated_batches_that_fit_in_no_log_are_refused(
    tmp_path: Path, records: bytearray
) -> None:
    with pytest.raises(Refused) as raised:
        check_replicated(memoryview(records), 0)
    assert raised.value.code is ErrorCode.corrupt_message

    log = open_log(tmp_path)
    append(log, a_batch())
    before = all_bytes(log)
    with pytest.raises(Refused):
        log.append_as_follower(memoryview(records), NOW_MS)
    assert log.log_end_offset == 1
    assert all_bytes(log) == before


def test_replicated_batches_at_the_limits_are_appended() -> None:
    for records in (at(0) + at(2**31 - 1), at(2**63 - 2), control(MARKER_VALUE), control(b"")):
        assert check_replicated(memoryview(records), 0)
