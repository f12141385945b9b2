"""Batches of transactions as a leader stores them."""

import struct

from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.handler_requests import WALL_MS

ABORT, COMMIT = 0, 1


def data(offset: int, producer: int, *, is_transactional: bool = True) -> bytes:
    """One record of a producer, whose timestamp grows with its offset."""
    return bytes(
        build_batch(
            [NewRecord(b"%d" % offset, None, WALL_MS + offset)],
            base_offset=offset,
            producer=ProducerIdentity(producer, 0, offset),
            leader_epoch=0,
            is_transactional=is_transactional,
        )
    )


def marker(offset: int, producer: int, kind: int) -> bytes:
    """The end of a transaction."""
    record = NewRecord(struct.pack(">hi", 0, 7), struct.pack(">hh", 0, kind), WALL_MS + offset)
    return bytes(
        build_batch(
            [record],
            base_offset=offset,
            producer=ProducerIdentity(producer, 0, -1),
            leader_epoch=0,
            is_transactional=True,
            is_control=True,
        )
    )
