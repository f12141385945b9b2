"""Places the replicas of a new topic. Pure; randomness is an argument.

As Kafka's AdminUtils: round-robin from a random start over brokers whose racks alternate; the
followers are shifted by one more place on every lap over the brokers (KIP-36). Brokers without a
rack count as one rack of their own, as for Kafka's controllers from 3.3 on (decision 060).
"""

from collections.abc import Mapping, Sequence
from random import Random

from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId


def assign_replicas(
    brokers: Mapping[BrokerId, str | None],
    partition_count: int,
    replication_factor: int,
    random: Random,
    first_partition: int = 0,
    fixed_start: int | None = None,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replica lists by partition number, the first of each its preferred leader.

    `brokers` maps live broker ids to racks (None: no rack). `first_partition` is the number of
    partitions that exist already; `fixed_start` replaces the random start and shift.
    Raises Refused(invalid_partitions / invalid_replication_factor).
    """
    if partition_count <= 0:
        raise Refused(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise Refused(
            ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise Refused(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {replication_factor} larger than available brokers:"
            f" {len(brokers)}.",
        )
    order = _alternate_racks(brokers)
    start = fixed_start if fixed_start is not None else random.randrange(len(order))
    shift = fixed_start if fixed_start is not None else random.randrange(len(order))
    assignment: dict[int, tuple[BrokerId, ...]] = {}
    known: dict[tuple[int, int], tuple[BrokerId, ...]] = {}
    """Cached by leader and shift, which repeat after some laps over the brokers."""
    for number in range(first_partition, first_partition + partition_count):
        if number > 0 and number % len(order) == 0:
            shift += 1
        leader_index = (number + start) % len(order)
        place = leader_index, shift % max(1, len(order) - 1)
        replicas = known.get(place)
        if replicas is None:
            replicas = known[place] = _replicas(
                order, brokers, leader_index, shift, replication_factor
            )
        assignment[number] = replicas
    return assignment


def _replicas(
    order: Sequence[BrokerId],
    racks: Mapping[BrokerId, str | None],
    leader_index: int,
    shift: int,
    replication_factor: int,
) -> tuple[BrokerId, ...]:
    """No rack gets a second replica before every rack has one; a broker gets at most one."""
    replicas = [order[leader_index]]
    rack_count = len(set(racks.values()))
    step = 0
    while len(replicas) < replication_factor:
        distance = 1 + (shift * rack_count + step) % (len(order) - 1)
        candidate = order[(leader_index + distance) % len(order)]
        step += 1
        used_racks = {racks[broker] for broker in replicas}
        rack_is_free = racks[candidate] not in used_racks or len(used_racks) == rack_count
        if candidate not in replicas and rack_is_free:
            replicas.append(candidate)
    return tuple(replicas)


def _alternate_racks(brokers: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """Broker ids in an order in which neighbors are in different racks: 0, 2, 1, 3 for {0, 1}, {2,
    3}. The racks take turns in the order of their names, those without a rack first."""
    by_rack: dict[tuple[bool, str], list[BrokerId]] = {}
    for broker in sorted(brokers):
        rack = brokers[broker]
        by_rack.setdefault((rack is not None, rack or ""), []).append(broker)
    order: list[BrokerId] = []
    lap = 0
    while len(order) < len(brokers):
        order += [by_rack[rack][lap] for rack in sorted(by_rack) if lap < len(by_rack[rack])]
        lap += 1
    return order
