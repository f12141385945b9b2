"""Record batches as stock clients wrote them, byte for byte.

Provenance: `DefaultRecordBatchBuilder` of kafka-python 3.0.12 (zstd: aiokafka's module of the same
name), given the three records below, producer id 4711, epoch 3, base sequence 17.
"""

import pytest

from cluster.model.clocks import WallMs
from cluster.records.batch import BatchHeader, Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.produced import BatchLimits, validate_produced
from cluster.records.reader import Record, read_records

RECORDS = [
    NewRecord(b"value" * 12, b"key", 1_700_000_000_123, (("trace", b"\x01\x02"), ("empty", None))),
    NewRecord(b"", None, 1_700_000_000_100),
    NewRecord(None, b"k2", 1_700_000_000_999),
]
PRODUCER = ProducerIdentity(4711, 3, 17)

VECTORS = {
    Compression.NONE: """
        00000000 00000000 00000099 00000000 02 702a1a3d 0000 00000002 0000018bcfe5687b
        0000018bcfe56be7 0000000000001267 0003 00000011 00000003
        aa01 00 00 00 06 6b6579 78
        76616c756576616c756576616c756576616c756576616c756576616c7565
        76616c756576616c756576616c756576616c756576616c756576616c7565
        04 0a 7472616365 04 0102 0a 656d707479 01
        0c 00 2d 02 01 00 00
        12 00 d80d 04 04 6b32 01 00""",
    Compression.GZIP: """
        000000000000000000000077000000000 21f3d0ed4 0001 00000002 0000018bcfe5687b
        0000018bcfe56be7 0000000000001267 0003 00000011 00000003
        1f8b080080e8006b02ff5bc5c8c0c0c0969d5a59519698539a4a26c1c2555294989ccac2c8c4959a5b5052c9c8
        c3a0cb04345988e1062f0b4bb611230300d0e2a91e68000000""",
    Compression.SNAPPY: """
        00000000000000000000007c000000000 236ef9697 0002 00000002 0000018bcfe5687b
        0000018bcfe56be7 0000000000001267 0003 00000011 00000003
        82534e41505059000000000100000001000000376838aa01000000066b65797876616c7565da050084040a7472
        6163650401020a656d707479010c002d020100001200d80d04046b320100""",
    Compression.LZ4: """
        000000000000000000000080000000000 2f8905534 0003 00000002 0000018bcfe5687b
        0000018bcfe56be7 0000000000001267 0003 00000011 00000003
        04224d18684068000000000000006438000000ff00aa01000000066b65797876616c7565050024f013040a7472
        6163650401020a656d707479010c002d020100001200d80d04046b32010000000000""",
    Compression.ZSTD: """
        000000000000000000000072ffffffff0 246dc242a 0004 00000002 0000018bcfe5687b
        0000018bcfe56be7 0000000000001267 0003 00000011 00000003
        28b52ffd2068c501001403aa01000000066b65797876616c7565040a74726163650401020a656d707479010c00
        2d020100001200d80d04046b3201000100c459ea""",
}


def vector(codec: Compression) -> bytes:
    return bytes.fromhex("".join(VECTORS[codec].split()))


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_of_clients_are_read(codec: Compression) -> None:
    batch = vector(codec)
    produced = validate_produced(memoryview(batch), BatchLimits(1000), WallMs(1_700_000_000_000))
    header = produced.header
    assert produced.from_magic == b""  # nothing about it had to be changed
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        partition_leader_epoch=-1 if codec is Compression.ZSTD else 0,
        magic=2,
        crc=header.crc,
        attributes=codec,
        last_offset_delta=2,
        base_timestamp=1_700_000_000_123,
        max_timestamp=1_700_000_000_999,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
        record_count=3,
    )
    assert list(read_records(batch)) == [
        Record(offset, new.timestamp_ms, new.key, new.value, new.headers)
        for offset, new in enumerate(RECORDS)
    ]


def test_batches_are_built_with_the_bytes_of_clients() -> None:
    """Only without compression: how well a codec packs is its own business."""
    built = build_batch(RECORDS, producer=PRODUCER, leader_epoch=0)
    assert built.hex() == vector(Compression.NONE).hex()
