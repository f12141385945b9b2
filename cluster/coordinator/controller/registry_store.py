"""The controller's and brokers' records in the registry: blocking calls for the registry thread.

Every write of the controller goes in a transaction that also checks the version of
`/controller_epoch`, so a controller that was replaced without noticing writes nothing (CTL1).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError
from kazoo.protocol.states import WatchedEvent

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
from cluster.model.plan import Plan

log = logging.getLogger(__name__)

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
    """The cluster's id; the first broker ever makes it. Raises UserError when it is none."""
    with suppress(NodeExistsError):
        client.create(
            paths.CLUSTER_ID, znodes.encode_cluster_id(encode_uuid(new_uuid())), makepath=True
        )
    document, _ = client.get(paths.CLUSTER_ID)
    try:
        return znodes.decode_cluster_id(document)
    except ValueError as error:
        raise UserError(f"{paths.CLUSTER_ID} in the registry: {error}") from error


def register_broker(
    client: KazooClient, registration: BrokerRegistration, wall_ms: int
) -> BrokerEpoch:
    """Announce this broker; its epoch. Raises UserError when its id is taken by a live broker."""
    path = paths.broker(registration.id)
    document = znodes.encode_broker(registration, wall_ms)
    while True:
        with suppress(NodeExistsError):
            _, stat = client.create(path, document, ephemeral=True, include_data=True)
            return BrokerEpoch(stat.czxid)
        stat = client.exists(path)
        if stat is None:
            continue  # it has just gone with the session of our former life
        if stat.ephemeralOwner == client.client_id[0]:
            return BrokerEpoch(stat.czxid)  # made by an earlier try whose answer was lost
        raise UserError(
            f"a broker with id {registration.id} is already registered in this cluster;"
            " stop it, wait until its session has expired, or choose another broker.id"
        )


def live_brokers(client: KazooClient, watch: Watch | None = None) -> list[BrokerRegistration]:
    """Every registered broker that can be reached by ours; `watch` fires when one comes or goes.

    What is no registration is left out: one znode of another tool must not leave all brokers
    without a controller.
    """
    names = client.get_children(paths.BROKER_IDS, watch=watch)
    pending = [(name, client.get_async(f"{paths.BROKER_IDS}/{name}")) for name in names]
    found = []
    for name, answer in pending:
        try:
            document, stat = answer.get()
            broker_id = znodes.decode_broker_id(name)
            found.append(znodes.decode_broker(broker_id, document, BrokerEpoch(stat.czxid)))
        except NoNodeError:
            continue
        except ValueError as error:
            log.warning("%s/%s is not a broker: %s", paths.BROKER_IDS, name, error)
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


def load_cluster(client: KazooClient, epoch_version: int) -> LoadedCluster:
    """Every topic with its partitions as the registry holds them; brokers are left empty.

    A topic without an id gets one there and then: with another id after the next election its
    replicas would be those of another topic, and be removed. Raises Deposed, OutOfStep; ValueError
    for a document that is none, since a topic that was left out would lose its replicas too.
    """
    state = ClusterState()
    written: dict[TopicPartition, int] = {}
    names = client.get_children(paths.TOPICS)
    assignments = [(name, client.get_async(paths.topic(name))) for name in names]
    configs = {
        name: client.get_async(paths.entity_config(paths.TOPIC_CONFIGS, name)) for name in names
    }
    for name, answer in assignments:
        document, stat = answer.get()
        with _naming(paths.topic(name)):
            assignment = znodes.decode_topic(document)
        topic_id = assignment.topic_id
        if topic_id is None:
            topic_id = new_uuid()
            assignment = replace(assignment, topic_id=topic_id)
            _commit_batch(
                client, [_assignment_write(name, assignment, stat.version)], epoch_version
            )
        try:
            overrides = znodes.decode_entity_config(configs[name].get()[0])
        except NoNodeError:
            overrides = {}
        except ValueError as error:
            log.warning("configs of topic %s are left out: %s", name, error)
            overrides = {}
        state.put_topic(
            TopicState(
                name,
                topic_id,
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
        with _naming(paths.partition_state(TopicPartition(name, number))):
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
    writes = _writes(client, plan, state, controller_epoch)
    while batch := list(islice(writes, _WRITES_PER_TRANSACTION)):
        _commit_batch(client, batch, epoch_version)


def next_producer_ids(client: KazooClient, broker: BrokerId) -> range:
    """A block of producer ids that no other broker has or will have.

    Raises ValueError when there is none left, or the registry does not tell which was the last.
    """
    while True:
        document, stat = client.get(paths.LATEST_PRODUCER_ID_BLOCK)
        first = znodes.decode_producer_id_block(document).last + 1 if document else 0
        block = ProducerIdBlock(broker, first, first + PRODUCER_IDS_PER_BLOCK - 1)
        if first < 0 or block.last >= 2**63:
            raise ValueError(f"{paths.LATEST_PRODUCER_ID_BLOCK}: no producer ids after {first - 1}")
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


def _commit_batch(client: KazooClient, writes: Iterable[_Write], epoch_version: int) -> None:
    transaction = client.transaction()
    transaction.check(paths.CONTROLLER_EPOCH, epoch_version)
    for write in writes:
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


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _writes(
    client: KazooClient, plan: Plan, state: ClusterState, epoch: ControllerEpoch
) -> Iterator[_Write]:
    """What the plan takes; it depends on what is there, where other tools write too, and where an
    earlier controller may have died between two transactions.
    """
    for topic in plan.created:
        yield from _create_topic(client, topic, epoch)
    for name in {partition.topic for partition in plan.added}:
        yield _set_assignment(state.topics[name], plan)
    for partition, new_state in plan.added.items():
        yield from _create_partition(partition, new_state, epoch)
    for partition, new_state in plan.changed.items():
        yield from _change_partition(client, partition, new_state, epoch)
    for name, configs in plan.configured.items():
        yield _put_configs(client, name, configs)
        change = znodes.encode_config_change(paths.entity_path(paths.TOPIC_CONFIGS, name))
        yield _creation(paths.CONFIG_CHANGE_PREFIX, change, sequence=True)
    for name in plan.deleted:
        yield from _delete_topic(client, name)


def _create_topic(
    client: KazooClient, topic: TopicState, epoch: ControllerEpoch
) -> Iterator[_Write]:
    assignment = TopicAssignment(
        topic.topic_id, {number: p.replicas for number, p in topic.partitions.items()}
    )
    # Kafka writes the configs first too: whoever sees the topic sees its configs.
    yield _put_configs(client, topic.name, topic.configs)
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
    client: KazooClient, partition: TopicPartition, state: PartitionState, epoch: ControllerEpoch
) -> Iterator[_Write]:
    path, document = paths.partition_state(partition), _encode_state(state, epoch)
    if state.partition_epoch == 0:
        client.ensure_path(paths.partition(partition))  # any of its parents may be there
        yield _creation(path, document)
    else:
        yield lambda t: t.set_data(path, document, version=state.partition_epoch - 1)


def _set_assignment(topic: TopicState, plan: Plan) -> _Write:
    replicas = {number: p.replicas for number, p in topic.partitions.items()}
    replicas |= {p.partition: s.replicas for p, s in plan.added.items() if p.topic == topic.name}
    return _assignment_write(topic.name, TopicAssignment(topic.topic_id, replicas))


def _assignment_write(name: str, assignment: TopicAssignment, version: int = -1) -> _Write:
    document = znodes.encode_topic(assignment)
    return lambda t: t.set_data(paths.topic(name), document, version=version)


def _put_configs(client: KazooClient, name: str, configs: Mapping[str, str]) -> _Write:
    path = paths.entity_config(paths.TOPIC_CONFIGS, name)
    document = znodes.encode_entity_config(configs)
    if client.exists(path) is None:
        return _creation(path, document)
    return lambda t: t.set_data(path, document)


def _delete_topic(client: KazooClient, name: str) -> Iterator[_Write]:
    levels = [[paths.topic(name)]]
    while levels[-1]:
        levels.append(_below(client, levels[-1]))
    # The topic goes last: until then the next controller finds it, and can delete it again.
    doomed = [path for level in reversed(levels) for path in level]
    config_path = paths.entity_config(paths.TOPIC_CONFIGS, name)
    if client.exists(config_path) is not None:
        doomed.insert(0, config_path)
    for path in doomed:
        yield _deletion(path)


def _below(client: KazooClient, parents: Iterable[str]) -> list[str]:
    pending = [(parent, client.get_children_async(parent)) for parent in parents]
    found = []
    for parent, answer in pending:
        with suppress(NoNodeError):
            found += [f"{parent}/{child}" for child in answer.get()]
    return found


def _deletion(path: str) -> _Write:
    return lambda t: t.delete(path)


def _creation(path: str, document: bytes, *, sequence: bool = False) -> _Write:
    return lambda t: t.create(path, document, sequence=sequence)


def _encode_state(state: PartitionState, epoch: ControllerEpoch) -> bytes:
    return znodes.encode_partition_state(
        PartitionStateRecord(state.leader, state.leader_epoch, state.isr, epoch)
    )
