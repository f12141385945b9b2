"""Logs of a follower that differ from the leader's, and how they become prefixes of it again."""

import logging

from cluster.brokers.replication.partition import Partition
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, LeaderEpoch, Offset

log = logging.getLogger(__name__)


def divergence(
    partition: Partition, last_epoch: LeaderEpoch, fetch_offset: Offset
) -> tuple[int, int] | None:
    """Epoch and end offset at which a follower's log diverges (KIP-595), or None.

    `last_epoch` is the epoch of its last record, -1 if it has none.
    """
    if last_epoch < 0:
        return None
    replica = partition.log
    epoch, end_offset = replica.epochs.end_offset(last_epoch, replica.log_end_offset)
    if epoch < last_epoch or end_offset < fetch_offset:
        return int(epoch), int(end_offset)
    return None


def truncate_diverging(partition: Partition, leader: BrokerId, epoch: int, end_offset: int) -> None:
    """Truncate to where both logs agree, or to where the next older epoch is compared.

    Raises Refused if there is nothing to truncate, and StorageFailed.
    """
    _, own_end = partition.log.epochs.end_offset(LeaderEpoch(epoch), partition.log.log_end_offset)
    offset = Offset(max(min(own_end, end_offset), partition.log.log_start_offset))
    if own_end < 0:
        offset = partition.log.log_start_offset
    log.info(
        "%s: truncating from %d to %d (leader %d has epoch %d up to %d)",
        partition.id,
        partition.log.log_end_offset,
        offset,
        leader,
        epoch,
        end_offset,
    )
    if offset < partition.high_watermark:
        log.error(
            "%s: committed records from %d to %d are lost: leader %d was elected without them"
            " (an unclean election)",
            partition.id,
            offset,
            partition.high_watermark,
            leader,
        )
    before = (partition.log.log_end_offset, partition.log.epochs.latest)
    partition.truncate_to(offset)
    if (partition.log.log_end_offset, partition.log.epochs.latest) == before:
        # Asking at once would get the same answer: pause instead of spinning.
        raise Refused(ErrorCode.unknown_leader_epoch, "there was nothing to truncate")


def start_over(partition: Partition, leader_log_start: int, leader_high_watermark: int) -> None:
    """Begin again where the leader's log begins, if no record here can be the next one.

    Raises Refused(offset_out_of_range) otherwise, and StorageFailed.
    """
    own = partition.log
    is_beyond = own.log_start_offset == own.log_end_offset > leader_high_watermark
    # An empty log beyond the leader's: the checkpoint of its start was wrong.
    if own.log_end_offset < leader_log_start or is_beyond:
        log.info(
            "%s: starting over at %d, where the leader's log begins",
            partition.id,
            leader_log_start,
        )
        partition.start_over_at(Offset(leader_log_start))
    else:
        raise Refused(ErrorCode.offset_out_of_range)
