"""The effect of a returning broker's logs on partitions that it could lead. Pure.

A replica that may lead has every committed record, unless its disk lost some while its broker was
away. A broker reports at its registration which of its logs are missing or may be short; such a
replica loses its right to lead before any election (KIP-966 does that for every unclean shutdown,
KIP-858 for lost directories).
"""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from cluster.model.cluster import DoubtfulLog, PartitionState
from cluster.model.ids import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from cluster.model.log_condition import LogCondition, LogEnd


def without_lost_logs(
    state: PartitionState,
    partition: TopicPartition,
    topic_id: uuid.UUID,
    returned: Mapping[BrokerId, LogCondition],
) -> PartitionState:
    """The state, in which replicas that lost records have lost their right to lead.

    The same object if nothing changes; partition epoch and leader are unchanged. `returned` maps
    brokers that are back after an absence to their reports.
    """
    for broker, condition in returned.items():
        known = next((one for one in state.doubtful if one.broker == broker), None)
        if known is None and broker not in state.isr and broker not in state.eligible:
            continue
        end = condition.doubtful_end(partition, topic_id)
        if known is not None and not known.is_there:
            if not condition.holds(partition, topic_id):
                continue
            end = end or LogEnd(NO_EPOCH, Offset(0))  # it is back, and was not created again
        if condition.lacks(partition):
            log = DoubtfulLog(broker, NO_EPOCH, Offset(-1))
        elif end is not None:
            log = DoubtfulLog(broker, end.last_epoch, end.offset)
        else:
            continue
        if log != known:
            state = _without(state, broker)
            state = replace(state, doubtful=(*state.doubtful, log))
    return state


def best_doubtful(state: PartitionState, live: Collection[BrokerId]) -> BrokerId | None:
    """The doubtful replica with the longest log on a live broker; None if there is none."""
    logs = [one for one in state.doubtful if one.broker in live and one.is_there]
    return max(logs, key=_extent).broker if logs else None


def best_unclean(state: PartitionState, live: Collection[BrokerId]) -> BrokerId | None:
    """The replica that leads if any may; one that lost everything comes last, and before it those
    that a reassignment is adding, which may have nothing yet."""
    best = best_doubtful(state, live)
    empty = {one.broker for one in state.doubtful if one.log_end_offset <= 0}
    if best is not None and best not in empty:
        return best
    replicas = [broker for broker in state.replicas if broker in live]
    replicas.sort(key=lambda broker: broker in state.adding)
    others = (broker for broker in replicas if broker not in empty)
    return next(others, next(iter(replicas), None) if best is None else best)


def are_all_heard(state: PartitionState, live: Collection[BrokerId]) -> bool:
    """Whether no absent replica can have more than the doubtful ones that are present."""
    doubtful = (one for one in state.doubtful if one.is_there)
    return not state.isr and not state.eligible and all(d.broker in live for d in doubtful)


def eligible_after(
    state: PartitionState, isr: Collection[BrokerId], min_insync_replicas: int
) -> tuple[BrokerId, ...]:
    """The replicas outside `isr`, the ISR that follows `state`, that may lead too.

    While the ISR has fewer members than `min.insync.replicas` nothing is committed (see
    `LeaderReplica`), so a replica that leaves it then has every committed record.
    """
    if len(isr) >= min(min_insync_replicas, state.replication_factor):
        return ()
    may_lead = {*state.isr, *state.eligible}
    return tuple(b for b in state.replicas if b in may_lead and b not in isr)


def _without(state: PartitionState, broker: BrokerId) -> PartitionState:
    return replace(
        state,
        isr=tuple(b for b in state.isr if b != broker),
        eligible=tuple(b for b in state.eligible if b != broker),
        doubtful=tuple(one for one in state.doubtful if one.broker != broker),
    )


def _extent(log: DoubtfulLog) -> tuple[LeaderEpoch, Offset]:
    return log.last_epoch, log.log_end_offset
