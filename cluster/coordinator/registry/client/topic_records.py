"""Topics, their configs and the states of their partitions in the registry.

Every write of the controller is part of a transaction that also checks the version of
`/controller_epoch`, so a controller that was replaced without noticing writes nothing.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar
from uuid import UUID

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NoNodeError,
    NotReadOnlyCallError,
    RolledBackError,
)
from kazoo.interfaces import IAsyncResult

from cluster.coordinator.cluster_store import (
    STORE_FULL,
    ChangedTopics,
    Deposed,
    LoadedCluster,
    OnChange,
    OutOfStep,
    StoreFull,
    StoreVersion,
)
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.coordinator.registry.documents.znodes import (
    PartitionStateRecord,
    TopicAssignment,
)
from cluster.model.cluster import (
    ClusterState,
    PartitionState,
    TopicState,
)
from cluster.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    new_uuid,
)
from cluster.model.plan import Plan
from cluster.model.topics import TOPIC_NAME_LENGTH_MAX

log = logging.getLogger(__name__)

T = TypeVar("T")

WRITES_PER_TRANSACTION = 500
"""Keeps a transaction far below jute.maxbuffer (1 MiB)."""
READS_AT_ONCE = 500
"""Enough to hide the latency of the registry. A read in progress is some twenty objects: with ten
thousand reads, a pass of the garbage collector would stop all threads for too long."""
_TOPIC_PREFIX: Final = f"{paths.TOPIC_CONFIGS}/"


class TopicRecords:
    """A `TopicStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load(self, version: StoreVersion) -> LoadedCluster:
        """A topic without an id gets one now: with another id after the next election its replicas
        would belong to another topic, and be removed. A document that cannot be read is an error,
        since a topic that was left out would lose its replicas too.
        """
        client = self._client
        state = ClusterState()
        written: dict[TopicPartition, BrokerEpoch] = {}
        names = client.get_children(paths.TOPICS)
        for name in [each for each in names if len(each) > TOPIC_NAME_LENGTH_MAX]:
            log.warning("ignored a topic whose name has %d characters", len(name))
            names.remove(name)  # its replicas could not have a directory
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
                _commit_batch(client, [_assignment_write(name, assignment, stat.version)], version)
            state.put_topic(
                TopicState(
                    name,
                    topic_id,
                    _overrides(name, configs[name]),
                    dict(_load_partitions(client, name, assignment, written)),
                )
            )
        return LoadedCluster(state, written, _directories_recorded(client))

    def commit(
        self,
        plan: Plan,
        state: ClusterState,
        controller_epoch: ControllerEpoch,
        version: StoreVersion,
    ) -> None:
        """A large plan takes several transactions; each leaves a state from which a new controller
        can go on.
        """
        client = self._client
        writes = _writes(client, plan, state, controller_epoch)
        has_written = False
        while batch := list(islice(writes, WRITES_PER_TRANSACTION)):
            try:
                _commit_batch(client, batch, version)
            except NotReadOnlyCallError as error:
                if has_written:
                    raise OutOfStep(STORE_FULL) from error
                raise StoreFull(STORE_FULL) from error
            has_written = True

        def read(name: str) -> IAsyncResult:
            return client.get_async(paths.entity_config(paths.TOPIC_CONFIGS, name))

        for name, answer in _reads(plan.reread, read):
            overrides = _overrides(name, answer)
            if overrides != state.topics[name].configs:
                plan.learned[name] = overrides

    def changed_configs(
        self, after: int | None, on_change: OnChange | None = None
    ) -> ChangedTopics:
        client = self._client
        names = sorted(client.get_children(paths.CONFIG_CHANGES, watch=self._watch(on_change)))
        numbered = list(_numbered(names))
        last = max([-1 if after is None else after, *(number for number, _ in numbered)])
        new = [] if after is None else [name for number, name in numbered if number > after]
        answers = [(name, client.get_async(f"{paths.CONFIG_CHANGES}/{name}")) for name in new]
        topics = set()
        for name, answer in answers:
            try:
                entity_path = znodes.decode_config_change(answer.get()[0])
            except NoNodeError:
                continue  # removed for its age: its watchers have seen it long ago
            except (NoAuthError, ValueError) as error:
                log.warning("ignored %s/%s: %r", paths.CONFIG_CHANGES, name, error)
                continue
            if entity_path.startswith(_TOPIC_PREFIX):
                topics.add(entity_path.removeprefix(_TOPIC_PREFIX))
        return ChangedTopics(last, frozenset(topics))


def _numbered(names: list[str]) -> Iterator[tuple[int, str]]:
    """Change nodes with their numbers; other nodes in the folder are left out."""
    prefix = paths.CONFIG_CHANGE_PREFIX.rpartition("/")[2]
    for name in names:
        number = name.removeprefix(prefix)
        if name.startswith(prefix) and number.isdecimal() and number.isascii():
            yield int(number), name


def _directories_recorded(client: KazooClient) -> dict[BrokerId, BrokerEpoch]:
    """The transaction number of the last write of each broker's record of log directories."""
    try:
        names = client.get_children(paths.LOG_DIRECTORIES)
    except NoNodeError:
        return {}
    recorded = {}
    for name in names:
        stat = client.exists(f"{paths.LOG_DIRECTORIES}/{name}")
        if stat is not None and name.isdecimal() and name.isascii():
            recorded[BrokerId(int(name))] = BrokerEpoch(stat.mzxid)
    return recorded


def _overrides(name: str, answer: IAsyncResult) -> dict[str, str]:
    try:
        return znodes.decode_entity_config(answer.get()[0])
    except NoNodeError:
        return {}
    except (NoAuthError, ValueError) as error:
        log.warning("ignored the configs of topic %s: %r", name, error)
        return {}


def _load_partitions(
    client: KazooClient,
    name: str,
    assignment: TopicAssignment,
    written: dict[TopicPartition, BrokerEpoch],
) -> Iterator[tuple[int, PartitionState]]:
    def read(item: tuple[int, tuple[BrokerId, ...]]) -> IAsyncResult:
        return client.get_async(paths.partition_state(TopicPartition(name, item[0])))

    for (number, replicas), answer in _reads(assignment.replicas.items(), read):
        try:
            document, stat = answer.get()
        except NoNodeError:
            # A tool has assigned it without a state, or a controller has died in between.
            yield (
                number,
                PartitionState(
                    replicas,
                    replicas,
                    NO_BROKER,
                    LeaderEpoch(0),
                    PartitionEpoch(-1),
                    adding=assignment.adding.get(number, ()),
                    removing=assignment.removing.get(number, ()),
                ),
            )
            continue
        with _naming(paths.partition_state(TopicPartition(name, number))):
            record = znodes.decode_partition_state(document)
        written[TopicPartition(name, number)] = BrokerEpoch(stat.mzxid)
        yield (
            number,
            PartitionState(
                replicas,
                record.isr,
                record.leader,
                record.leader_epoch,
                PartitionEpoch(stat.version),
                record.eligible,
                record.doubtful,
                assignment.adding.get(number, ()),
                assignment.removing.get(number, ()),
            ),
        )


_Write = Callable[[TransactionRequest], None]


def _commit_batch(
    client: KazooClient, writes: Iterable[_Write], epoch_version: StoreVersion
) -> None:
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
    """The writes that carry out the plan.

    They depend on which znodes exist: other tools write here too, and an earlier controller may
    have died between two transactions.
    """
    for topic in plan.created:
        yield from _create_topic(client, topic, epoch)
    for name, added in _by_topic(plan.added).items():
        yield _set_assignment(state.topics[name], added)
    for partition, new_state in plan.added.items():
        yield from _create_partition(partition, new_state, epoch)
    for partition, new_state in plan.changed.items():
        yield from _change_partition(client, partition, new_state, epoch)
    # After the states: if only a part is written, a new controller finds the old assignment.
    for name, changed in _by_topic(plan.changed).items():
        if _are_reassigned(state.topics[name], changed):
            yield _set_assignment(state.topics[name], changed)
    for name, configs in plan.configured.items():
        yield _put_configs(client, name, configs)
        change = znodes.encode_config_change(paths.entity_path(paths.TOPIC_CONFIGS, name))
        yield _creation(paths.CONFIG_CHANGE_PREFIX, change, sequence=True)
    for name in plan.deleted:
        yield from _delete_topic(client, name)


def _create_topic(
    client: KazooClient, topic: TopicState, epoch: ControllerEpoch
) -> Iterator[_Write]:
    assignment = _assignment(topic.topic_id, topic.partitions)
    # Kafka writes the configs first too: a reader of the topic then finds its configs.
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
        client.ensure_path(paths.partition(partition))  # any of its parents may be missing
        yield _creation(path, document)
    else:
        yield lambda t: t.set_data(path, document, version=state.partition_epoch - 1)


def _by_topic(
    states: Mapping[TopicPartition, PartitionState],
) -> dict[str, dict[int, PartitionState]]:
    found: defaultdict[str, dict[int, PartitionState]] = defaultdict(dict)
    for (topic, number), state in states.items():
        found[topic][number] = state
    return found


def _are_reassigned(topic: TopicState, changed: Mapping[int, PartitionState]) -> bool:
    """Whether the replicas of any of these partitions change."""
    return any(
        (new.replicas, new.adding, new.removing) != (old.replicas, old.adding, old.removing)
        for number, new in changed.items()
        if (old := topic.partitions.get(number)) is not None
    )


def _set_assignment(topic: TopicState, new: Mapping[int, PartitionState]) -> _Write:
    return _assignment_write(topic.name, _assignment(topic.topic_id, {**topic.partitions, **new}))


def _assignment(topic_id: UUID, partitions: Mapping[int, PartitionState]) -> TopicAssignment:
    return TopicAssignment(
        topic_id,
        {number: state.replicas for number, state in partitions.items()},
        {number: state.adding for number, state in partitions.items() if state.adding},
        {number: state.removing for number, state in partitions.items() if state.removing},
    )


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
    # The topic itself comes last: until then the next controller finds it and can delete it again.
    doomed = [path for level in reversed(levels) for path in level]
    config_path = paths.entity_config(paths.TOPIC_CONFIGS, name)
    if client.exists(config_path) is not None:
        doomed.insert(0, config_path)
    for path in doomed:
        yield _deletion(path)


def _below(client: KazooClient, parents: Iterable[str]) -> list[str]:
    found = []
    for parent, answer in _reads(parents, client.get_children_async):
        with suppress(NoNodeError):
            found += [f"{parent}/{child}" for child in answer.get()]
    return found


def _reads(
    items: Iterable[T], read: Callable[[T], IAsyncResult]
) -> Iterator[tuple[T, IAsyncResult]]:
    """Each item with its read, which has begun; limits how many reads are in progress."""
    rest = iter(items)
    while some := list(islice(rest, READS_AT_ONCE)):
        answers = deque(map(read, some))
        for item in some:
            yield item, answers.popleft()


def _deletion(path: str) -> _Write:
    return lambda t: t.delete(path)


def _creation(path: str, document: bytes, *, sequence: bool = False) -> _Write:
    return lambda t: t.create(path, document, sequence=sequence)


def _encode_state(state: PartitionState, epoch: ControllerEpoch) -> bytes:
    return znodes.encode_partition_state(
        PartitionStateRecord(
            state.leader, state.leader_epoch, state.isr, epoch, state.eligible, state.doubtful
        )
    )
