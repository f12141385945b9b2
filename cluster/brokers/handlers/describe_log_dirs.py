"""DescribeLogDirs (API key 35), versions 1-4.

Answers at once: every log directory with the replicas that are in it, or that are being moved to
it. One that has failed has KAFKA_STORAGE_ERROR (KIP-112). v2 flexible; v3 top-level error; v4 sizes
of the volume (KIP-827).
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.ports import HasMoves
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.log.log_directory import LogDirectory
from cluster.model.errors import ErrorCode, StorageFailed
from cluster.model.ids import TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API: Final = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 4)

_UNKNOWN_BYTES: Final = -1

_Wanted = Collection[TopicPartition] | None
"""None: all of them."""


def handle(
    request: DescribeLogDirsRequest, _context: RequestContext, services: HasMoves
) -> DescribeLogDirsResponse:
    """One result per log directory, in the order of the settings."""
    wanted = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, number)
            for topic in request.topics
            for number in topic.partitions
        }
    found: defaultdict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]]
    found = defaultdict(dict)
    for directory, partition, row in _rows(services, wanted):
        found[directory].setdefault(partition.topic, []).append(row)
    return DescribeLogDirsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results=tuple(
            _result(directory, found[directory])
            for directory in services.partitions.places.directories
        ),
    )


def _rows(
    services: HasMoves, wanted: _Wanted
) -> Iterator[tuple[LogDirectory, TopicPartition, DescribeLogDirsPartition]]:
    table = services.partitions
    for partition in table:
        directory = table.directory_of(partition.id)
        if directory is not None and (wanted is None or partition.id in wanted):
            yield (
                directory,
                partition.id,
                DescribeLogDirsPartition(
                    partition_index=partition.id.partition,
                    partition_size=partition.log.size_bytes,
                    offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
                    is_future_key=False,
                ),
            )
    for future in services.moves.futures():
        current = table.find(future.partition)
        if current is not None and (wanted is None or future.partition in wanted):
            yield (
                future.directory,
                future.partition,
                DescribeLogDirsPartition(
                    partition_index=future.partition.partition,
                    partition_size=future.size_bytes,
                    offset_lag=current.log.log_end_offset - future.log_end_offset,
                    is_future_key=True,
                ),
            )


def _result(
    directory: LogDirectory, topics: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    try:
        if directory.failure is not None:
            raise StorageFailed(directory.failure)
        total_bytes, usable_bytes = _volume(directory)
    except StorageFailed:
        return DescribeLogDirsResult(
            error_code=ErrorCode.kafka_storage_error,
            log_dir=path,
            topics=(),
            total_bytes=_UNKNOWN_BYTES,
            usable_bytes=_UNKNOWN_BYTES,
        )
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=path,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _volume(directory: LogDirectory) -> tuple[int, int]:
    """Size, and what an ordinary user may still write, of the volume. Raises StorageFailed."""
    try:
        facts = os.statvfs(directory.path)
    except OSError as error:
        raise StorageFailed(f"cannot examine {directory.path}: {error.strerror}") from error
    return facts.f_frsize * facts.f_blocks, facts.f_frsize * facts.f_bavail


HANDLER: Final = adapted(API, handle, authorizes="DESCRIBE on the cluster")
