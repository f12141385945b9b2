"""DescribeLogDirs (API key 35), versions 1-4.

Lists every log directory with its replicas and the replicas that are being moved to it. A failed
directory has KAFKA_STORAGE_ERROR (KIP-112).
v2 flexible; v3 top-level error; v4 sizes of the volume (KIP-827).
"""

import os
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER, may
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.log.log_directory import LogDirectory
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
from cluster.protocol.messages.describe_log_dirs import write_describe_log_dirs_partition
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 4)

_UNKNOWN_BYTES: Final = -1
_REPLICAS_AT_ONCE: Final = 500
_REPLICAS_PER_STEP: Final = 50

_Wanted = Collection[TopicPartition] | None
"""None means all partitions."""


class _Rows:
    """The encoded replicas of one log directory, by topic."""

    def __init__(self) -> None:
        self._content: dict[str, bytearray] = {}
        self._counts: dict[str, int] = {}

    def add(self, topic: str, row: DescribeLogDirsPartition, version: int) -> None:
        content = self._content.setdefault(topic, bytearray())
        write_describe_log_dirs_partition(content, row, version)
        self._counts[topic] = self._counts.get(topic, 0) + 1

    def topics(self) -> tuple[DescribeLogDirsTopic, ...]:
        return tuple(
            DescribeLogDirsTopic(name=name, partitions=EncodedItems(self._counts[name], content))
            for name, content in self._content.items()
        )


def handle(
    request: DescribeLogDirsRequest, context: RequestContext, services: AdminServices
) -> DescribeLogDirsResponse | NotYet:
    """One result per log directory, in the order of the settings.

    If there are many replicas, the answer is built in slices.
    """
    if not may(services, context, DESCRIBE_CLUSTER):
        return DescribeLogDirsResponse(
            throttle_time=timedelta(0),
            error_code=ErrorCode.cluster_authorization_failed,
            results=(),
        )
    wanted = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, number)
            for topic in request.topics
            for number in topic.partitions
        }
    found: defaultdict[LogDirectory, _Rows] = defaultdict(_Rows)
    steps = _gather(services, wanted, context.version, found)
    if len(services.partitions) > _REPLICAS_AT_ONCE:
        services.slices.start(_answer_later(steps, found, context, services))
        return PARKED
    deque(steps, maxlen=0)
    return _answer(found, services)


def _answer_later(
    steps: Iterator[None],
    found: Mapping[LogDirectory, _Rows],
    context: RequestContext,
    services: AdminServices,
) -> Iterator[None]:
    yield from steps
    context.answer(_answer(found, services))


def _answer(
    found: Mapping[LogDirectory, _Rows], services: AdminServices
) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results=tuple(
            _result(directory, found[directory].topics() if directory in found else ())
            for directory in services.partitions.places.directories
        ),
    )


def _gather(
    services: AdminServices, wanted: _Wanted, version: int, found: Mapping[LogDirectory, _Rows]
) -> Iterator[None]:
    table = services.partitions
    for count, partition in enumerate(table, 1):
        directory = table.directory_of(partition.id)
        if directory is not None and (wanted is None or partition.id in wanted):
            row = DescribeLogDirsPartition(
                partition_index=partition.id.partition,
                partition_size=partition.log.size_bytes,
                offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
                is_future_key=False,
            )
            found[directory].add(partition.id.topic, row, version)
        if count % _REPLICAS_PER_STEP == 0:
            yield
    for future in services.moves.futures():
        current = table.find(future.partition)
        if current is not None and (wanted is None or future.partition in wanted):
            row = DescribeLogDirsPartition(
                partition_index=future.partition.partition,
                partition_size=future.size_bytes,
                offset_lag=current.log.log_end_offset - future.log_end_offset,
                is_future_key=True,
            )
            found[future.directory].add(future.partition.topic, row, version)


def _result(
    directory: LogDirectory, topics: tuple[DescribeLogDirsTopic, ...]
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
        topics=topics,
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _volume(directory: LogDirectory) -> tuple[int, int]:
    """The volume's size and the space that an unprivileged user can still write. Raises
    StorageFailed.
    """
    try:
        facts = os.statvfs(directory.path)
    except OSError as error:
        raise StorageFailed(f"cannot examine {directory.path}: {error.strerror}") from error
    return facts.f_frsize * facts.f_blocks, facts.f_frsize * facts.f_bavail


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DESCRIBE_CLUSTER,))
