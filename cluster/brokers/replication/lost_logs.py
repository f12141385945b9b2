"""Finds the logs of a starting broker that may lack committed records.

Disks may be wiped, unmounted, rolled back or copied, and a power failure loses unsynced records.
"""

import logging
from collections.abc import Mapping

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log.log_directory import LogDirectory
from cluster.model.ids import NO_EPOCH, LeaderEpoch, Offset, TopicPartition
from cluster.model.log_condition import LogCondition, LogEnd

log = logging.getLogger(__name__)


def condition_of(
    table: PartitionTable, known: Mapping[str, int] | None, boot_id: str
) -> LogCondition:
    """Judge the logs that were opened.

    `known` has the generation that the registry holds for each directory id of this broker; None
    if it holds nothing, as at the first start.
    """
    directories = table.places.directories
    working = [each for each in directories if each.failure is None]
    lost = set(known or ()) - {each.directory_id for each in working}
    held = None
    if len(working) == len(
        directories
    ):  # otherwise some may be in a failed directory, and are offline
        held = frozenset([*(partition.id for partition in table), *table.offline.partitions()])
    if lost and held is not None:
        log.error(
            "%d of %d log directories of this broker are gone (wiped, not mounted, or not in"
            " log.dirs any more): of its replicas %d are here; the others count as lost, and are"
            " copied from replicas that have their records",
            len(lost),
            len(known or ()),
            len(held),
        )
    if table.missing:
        log.error(
            "%d replicas have no directory any more and count as lost: %s",
            len(table.missing),
            _some(table.missing),
        )
    is_one_older = any(_is_older(directory, known) for directory in working)
    doubted = set(table.short)
    if table.short:
        log.error(
            "%d replicas end before offsets that were committed or synced: %s",
            len(table.short),
            _some(table.short),
        )
    for directory in working:
        reason = _why_doubtful(directory, known, boot_id)
        if reason is not None:
            there = {p.id for p in table if table.directory_of(p.id) is directory}
            if _is_older(directory, known):
                log.error(
                    "%s %s: its %d logs may be short, and those that are not there count as lost",
                    directory.path,
                    reason,
                    len(there),
                )
            elif there:
                log.warning("%s %s: its %d logs may be short", directory.path, reason, len(there))
            doubted |= there
    return LogCondition(
        held,
        frozenset(table.missing),
        (bool(lost) or is_one_older) and held is not None,
        {name: _end_of(table.find(name)) for name in doubted},
    )


def _why_doubtful(
    directory: LogDirectory, known: Mapping[str, int] | None, boot_id: str
) -> str | None:
    mark = directory.mark
    if known is not None and directory.directory_id not in known:
        return "is not one that this broker had in use"
    if _is_older(directory, known):
        return "was emptied, or is older than when this broker used it last"
    if mark is None or directory.was_clean_shutdown:
        return None
    if not mark.is_original:
        return "is a copy of a directory in use"
    if mark.boot_id != boot_id:
        return "was in use when the machine went down"
    return None


def _is_older(directory: LogDirectory, known: Mapping[str, int] | None) -> bool:
    """Whether a directory was emptied or rolled back, so that newer logs in it are lost.

    The registry has 0 for a directory whose own file could not be written yet.
    """
    generation = 0 if known is None else known.get(directory.directory_id, 0)
    return generation > (0 if directory.mark is None else directory.mark.generation)


def _end_of(partition: Partition | None) -> LogEnd:
    if partition is None:
        return LogEnd(NO_EPOCH, Offset(0))
    end = partition.log.log_end_offset
    is_empty = end <= partition.log.log_start_offset
    last: LeaderEpoch = NO_EPOCH if is_empty else partition.log.epochs.epoch_at(Offset(end - 1))
    return LogEnd(last, end, partition.topic_id)


def _some(partitions: set[TopicPartition], most: int = 10) -> str:
    names = ", ".join(str(each) for each in sorted(partitions)[:most])
    return names if len(partitions) <= most else f"{names} and {len(partitions) - most} more"
