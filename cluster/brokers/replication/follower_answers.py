"""What a leader answers for one partition in full: records or where they are, or an error."""

import logging
from collections.abc import Callable

from cluster.brokers.replication.divergence import divergence
from cluster.brokers.replication.follower_sessions import Followed
from cluster.brokers.replication.partition import Partition
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import Offset, TopicPartition
from cluster.protocol.peer.replication import FetchedPartition, FileSource

log = logging.getLogger(__name__)


def full_answer(
    partition: Partition | None,
    followed: Followed,
    most_bytes: int,
    note_failure: Callable[[TopicPartition, StorageFailed], None],
) -> FetchedPartition:
    """The answer to a follower's position, without records if `most_bytes` is 0; `note_failure` is
    told of a log that cannot be read.
    """
    topic, number = followed.id
    try:
        if partition is None:
            raise Refused(ErrorCode.unknown_topic_or_partition)
        leader = partition.check_leader(followed.leader_epoch)
        if followed.session.follower not in leader.followers:
            raise Refused(ErrorCode.not_leader_or_follower)  # as Kafka's leader answers it
        diverging = divergence(partition, followed.last_fetched_epoch, followed.fetch_offset)
        records = None
        if diverging is None:
            if most_bytes:
                records = _records(partition, followed, most_bytes)
            elif followed.fetch_offset < partition.log.log_start_offset:
                raise Refused(ErrorCode.offset_out_of_range)
    except (Refused, StorageFailed) as problem:
        code = ErrorCode.kafka_storage_error
        if isinstance(problem, Refused):
            code = problem.code
        else:
            log.error(  # noqa: TRY400 - one line for a person
                "%s: cannot be read for broker %d: %s",
                followed.id,
                followed.session.follower,
                problem,
            )
            note_failure(followed.id, problem)
        return FetchedPartition(
            topic,
            number,
            followed.leader_epoch,
            code,
            -1 if partition is None else partition.high_watermark,
            -1 if partition is None else partition.log.log_start_offset,
        )
    return FetchedPartition(
        topic,
        number,
        followed.leader_epoch,
        ErrorCode.none,
        partition.high_watermark,
        partition.log.log_start_offset,
        diverging,
        records,
    )


def _records(
    partition: Partition, followed: Followed, most_bytes: int
) -> memoryview | FileSource | None:
    if not followed.session.by_file:
        return read_batches(partition, followed.fetch_offset, most_bytes)
    found = partition.log.locate(followed.fetch_offset, most_bytes)
    if found is None:
        return None
    followed.file = found.file
    return FileSource(found.file.path, found.file.inode, found.position, found.size_bytes)


def read_batches(partition: Partition, offset: Offset, most_bytes: int) -> memoryview | None:
    """The batches from an offset on, at least one; None at the log end.

    Raises Refused and StorageFailed, as `PartitionLog.read`.
    """
    data = partition.log.read(
        offset,
        most_bytes,
        upper_offset=partition.log.log_end_offset,
        at_least_one_batch=True,
    )
    return data.view() if data.size_bytes else None
