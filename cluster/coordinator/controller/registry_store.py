"""The controller's and brokers' records in the registry: blocking calls for the registry thread.

Every write of the controller goes in a transaction that also checks the version of
`/controller_epoch`, so a controller that was replaced without noticing writes nothing (CTL1).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.controller.plan import Plan
from cluster.coordinator.registry import paths, znodes
from cluster.coordinator.registry.znodes import (
    PartitionStateRecord,
    ProducerIdBlock,
    TopicAssignment,
)
from cluster.model.cluster import (
    BrokerRegistration,
    ClusterState,
    PartitionState,
    TopicState,
)
from cluster.model.errors import UserError
from cluster.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    encode_uuid,
    new_uuid,
)

_WRITES_PER_TRANSACTION = 500
"""Keeps a transaction far below jute.maxbuffer (1 MiB)."""
PRODUCER_IDS_PER_BLOCK = 1000

Watch = Callable[[WatchedEvent], None]


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome of a campaign; `epoch` is None when another broker is the controller."""

    controller: BrokerId
    epoch: ControllerEpoch | None = None
    epoch_version: int = -1
    """Version of `/controller_epoch` that every write of this controller checks."""


class LoadedCluster(NamedTuple):
    """What a new controller begins with; `written` is the zxid of each partition state."""

    state: ClusterState
    written: dict[TopicPartition, int]


class Deposed(Exception):
    """Another controller has taken over: nothing was written."""


class OutOfStep(Exception):
    """The registry does not hold what the plan was made from: somebody else has written there."""


def prepare_paths(client: KazooClient) -> None:
    """Make the persistent parents that are missing."""
    for path in paths.PERSISTENT_PATHS:
        if client.exists(path) is None:
            client.ensure_path(path)


def cluster_id(client: KazooClient) -> str:
    """The cluster's id; the first broker ever makes it."""
    with suppress(NodeExistsError):
        client.create(
            paths.CLUSTER_ID, znodes.encode_cluster_id(encode_uuid(new_uuid())), makepath=True
        )
    document, _ = client.get(paths.CLUSTER_ID)
    return znodes.decode_cluster_id(document)


def register_broker(
    client: KazooClient, registration: BrokerRegistration, wall_ms: int
) -> BrokerEpoch:
    """Announce this broker; its epoch. Raises UserError when its id is taken by a live broker."""
    path = paths.broker(registration.id)
    document = znodes.encode_broker(registration, wall_ms)
    try:
        _, stat = client.create(path, document, ephemeral=True, include_data=True)
    except NodeExistsError:
        stat = client.exists(path)
        if stat is not None and stat.ephemeralOwner == client.client_id[0]:
            return BrokerEpoch(stat.czxid)  # made by an earlier try whose answer was lost
        raise UserError(
            f"a broker with id {registration.id} is already registered in this cluster;"
            " stop it, wait until its session has expired, or choose another broker.id"
        ) from None
    return BrokerEpoch(stat.czxid)


def live_brokers(client: KazooClient, watch: Watch | None = None) -> list[BrokerRegistration]:
    """Every registered broker that can be reached by ours; `watch` fires when one comes or goes."""
    names = client.get_children(paths.BROKER_IDS, watch=watch)
    pending = [(name, client.get_async(paths.broker(BrokerId(int(name))))) for name in names]
    found = []
    for name, answer in pending:
        try:
            document, stat = answer.get()
        except NoNodeError:
            continue
        found.append(znodes.decode_broker(BrokerId(int(name)), document, BrokerEpoch(stat.czxid)))
    return found


def campaign(client: KazooClient, broker: BrokerId, wall_ms: int) -> Election:
    """Try to become the controller: claim `/controller` and raise the epoch in one transaction.

    A claim of our own session that we do not act on any more is given up first.
    """
    while True:
        try:
            document, stat = client.get(paths.CONTROLLER)
            if stat.ephemeralOwner != client.client_id[0]:
                return Election(znodes.decode_controller(document))
            client.delete(paths.CONTROLLER)
        except NoNodeError:
            pass
        with suppress(NodeExistsError):
            client.create(
                paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(ControllerEpoch(0))
            )
        document, stat = client.get(paths.CONTROLLER_EPOCH)
        epoch = ControllerEpoch(znodes.decode_controller_epoch(document) + 1)
        transaction = client.transaction()
        transaction.create(
            paths.CONTROLLER, znodes.encode_controller(broker, wall_ms), ephemeral=True
        )
        transaction.set_data(
            paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), version=stat.version
        )
        results = transaction.commit()
        if not any(isinstance(result, Exception) for result in results):
            return Election(broker, epoch, stat.version + 1)


def watch_controller(client: KazooClient, watch: Watch) -> BrokerId | None:
    """Who is the controller (None: nobody); `watch` fires when that changes."""
    if client.exists(paths.CONTROLLER, watch=watch) is None:
        return None
    try:
        document, _ = client.get(paths.CONTROLLER)
    except NoNodeError:
        return None
    return znodes.decode_controller(document)


def load_cluster(client: KazooClient) -> LoadedCluster:
    """Every topic with its partitions as the registry holds them; brokers are left empty."""
    state = ClusterState()
    written: dict[TopicPartition, int] = {}
    names = client.get_children(paths.TOPICS)
    assignments = [(name, client.get_async(paths.topic(name))) for name in names]
    configs = {
        name: client.get_async(paths.entity_config(paths.TOPIC_CONFIGS, name)) for name in names
    }
    for name, answer in assignments:
        document, _ = answer.get()
        assignment = znodes.decode_topic(document)
        try:
            overrides = znodes.decode_entity_config(configs[name].get()[0])
        except NoNodeError:
            overrides = {}
        state.put_topic(
            TopicState(
                name,
                assignment.topic_id or new_uuid(),
                overrides,
                dict(_load_partitions(client, name, assignment, written)),
            )
        )
    return LoadedCluster(state, written)


def _load_partitions(
    client: KazooClient,
    name: str,
    assignment: TopicAssignment,
    written: dict[TopicPartition, int],
) -> Iterator[tuple[int, PartitionState]]:
    pending = [
        (number, replicas, client.get_async(paths.partition_state(TopicPartition(name, number))))
        for number, replicas in assignment.replicas.items()
    ]
    for number, replicas, answer in pending:
        try:
            document, stat = answer.get()
        except NoNodeError:
            # Assigned but never given a state: by a tool, or by a controller that died in between.
            yield (
                number,
                PartitionState(replicas, replicas, NO_BROKER, LeaderEpoch(0), PartitionEpoch(-1)),
            )
            continue
        record = znodes.decode_partition_state(document)
        written[TopicPartition(name, number)] = stat.mzxid
        yield (
            number,
            PartitionState(
                replicas,
                record.isr,
                record.leader,
                record.leader_epoch,
                PartitionEpoch(stat.version),
            ),
        )


def commit(
    client: KazooClient,
    plan: Plan,
    state: ClusterState,
    controller_epoch: ControllerEpoch,
    epoch_version: int,
) -> None:
    """Write a plan made from `state`. Raises Deposed or OutOfStep.

    Large plans take several transactions; each leaves a state that a new controller can go on from.
    """
    writes = _writes(plan, state, controller_epoch)
    while batch := list(islice(writes, _WRITES_PER_TRANSACTION)):
        transaction = client.transaction()
        transaction.check(paths.CONTROLLER_EPOCH, epoch_version)
        for write in batch:
            write(transaction)
        results = transaction.commit()
        if isinstance(results[0], BadVersionError | NoNodeError):
            raise Deposed
        failures = [
            result
            for result in results
            if isinstance(result, Exception) and not isinstance(result, RolledBackError)
        ]
        if failures:
            raise OutOfStep(repr(failures[0]))


def next_producer_ids(client: KazooClient, broker: BrokerId) -> range:
    """A block of producer ids that no other broker has or will have."""
    while True:
        document, stat = client.get(paths.LATEST_PRODUCER_ID_BLOCK)
        first = znodes.decode_producer_id_block(document).last + 1 if document else 0
        block = ProducerIdBlock(broker, first, first + PRODUCER_IDS_PER_BLOCK - 1)
        try:
            client.set(
                paths.LATEST_PRODUCER_ID_BLOCK,
                znodes.encode_producer_id_block(block),
                version=stat.version,
            )
        except BadVersionError:
            continue  # another broker took this block
        return range(block.first, block.last + 1)


_Write = Callable[[TransactionRequest], None]


def _writes(plan: Plan, state: ClusterState, epoch: ControllerEpoch) -> Iterator[_Write]:
    for topic in plan.created:
        yield from _create_topic(topic, epoch)
    for name in {partition.topic for partition in plan.added}:
        yield _set_assignment(state.topics[name], plan)
    for partition, new_state in plan.added.items():
        yield from _create_partition(partition, new_state, epoch)
    for partition, new_state in plan.changed.items():
        yield from _change_partition(partition, new_state, epoch)
    for name, configs in plan.configured.items():
        yield from _set_configs(name, configs)
    for name in plan.deleted:
        yield from _delete_topic(state.topics[name])


def _create_topic(topic: TopicState, epoch: ControllerEpoch) -> Iterator[_Write]:
    assignment = TopicAssignment(
        topic.topic_id, {number: p.replicas for number, p in topic.partitions.items()}
    )
    config_path = paths.entity_config(paths.TOPIC_CONFIGS, topic.name)
    # Kafka writes the configs first too: whoever sees the topic sees its configs.
    yield _creation(config_path, znodes.encode_entity_config(topic.configs))
    yield _creation(paths.topic(topic.name), znodes.encode_topic(assignment))
    yield _creation(paths.partitions(topic.name), b"")
    for number, state in topic.partitions.items():
        yield from _create_partition(TopicPartition(topic.name, number), state, epoch)


def _create_partition(
    partition: TopicPartition, state: PartitionState, epoch: ControllerEpoch
) -> Iterator[_Write]:
    yield _creation(paths.partition(partition), b"")
    yield _creation(paths.partition_state(partition), _encode_state(state, epoch))


def _change_partition(
    partition: TopicPartition, state: PartitionState, epoch: ControllerEpoch
) -> Iterator[_Write]:
    if state.partition_epoch == 0:
        yield from _create_partition(partition, state, epoch)
    else:
        path, document = paths.partition_state(partition), _encode_state(state, epoch)
        yield lambda t: t.set_data(path, document, version=state.partition_epoch - 1)


def _set_assignment(topic: TopicState, plan: Plan) -> _Write:
    replicas = {number: p.replicas for number, p in topic.partitions.items()}
    replicas |= {p.partition: s.replicas for p, s in plan.added.items() if p.topic == topic.name}
    document = znodes.encode_topic(TopicAssignment(topic.topic_id, replicas))
    return lambda t: t.set_data(paths.topic(topic.name), document)


def _set_configs(name: str, configs: Mapping[str, str]) -> Iterator[_Write]:
    path = paths.entity_config(paths.TOPIC_CONFIGS, name)
    yield lambda t: t.set_data(path, znodes.encode_entity_config(configs))
    change = znodes.encode_config_change(paths.entity_path(paths.TOPIC_CONFIGS, name))
    yield lambda t: t.create(paths.CONFIG_CHANGE_PREFIX, change, sequence=True)


def _delete_topic(topic: TopicState) -> Iterator[_Write]:
    doomed: list[str] = []
    for number in topic.partitions:
        partition = TopicPartition(topic.name, number)
        doomed += [paths.partition_state(partition), paths.partition(partition)]
    doomed += [
        paths.partitions(topic.name),
        paths.topic(topic.name),
        paths.entity_config(paths.TOPIC_CONFIGS, topic.name),
    ]
    return _deletions(doomed)


def _deletions(doomed: Iterable[str]) -> Iterator[_Write]:
    for path in doomed:
        yield lambda t, path=path: t.delete(path)  # type: ignore[misc]  # binds this path


def _creation(path: str, document: bytes) -> _Write:
    return lambda t: t.create(path, document)


def _encode_state(state: PartitionState, epoch: ControllerEpoch) -> bytes:
    return znodes.encode_partition_state(
        PartitionStateRecord(state.leader, state.leader_epoch, state.isr, epoch)
    )
