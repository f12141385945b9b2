"""Does what other tools ask for by nodes that they create in the store, and removes these nodes.

Tools of Kafka's ZooKeeper mode asked so for reassignments, elections of preferred replicas and
deletions of topics (Kafka: `KafkaController.processZkPartitionReassignment` and its like).
"""

import logging
from collections.abc import Callable, Iterable, Set
from itertools import islice
from typing import Final, TypeVar

from cluster.coordinator.cluster_store import (
    NO_VERSION,
    ClusterStore,
    NodeElections,
    NodeReassignments,
    StoreSession,
    StoreVersion,
)
from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.leader_elections import ElectionType
from cluster.coordinator.controller.leader_operations import elect_in_parts
from cluster.coordinator.controller.operation import Operation
from cluster.coordinator.controller.reassignment_operations import alter_in_parts
from cluster.coordinator.controller.topic_operations import DeleteTopics
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome, Plan

log = logging.getLogger(__name__)

T = TypeVar("T")

_NAMED_MAX: Final = 5
_DONE: Final = frozenset(
    # The last two: it is done, or nothing was to be done.
    {ErrorCode.none, ErrorCode.request_timed_out, ErrorCode.election_not_needed}
)


class AdminNodes:
    """Covers one term of a controller. Owned by the broker's thread.

    A node stays until what it asks for is done or refused, so that the next controller goes on. One
    of reassignments names those which are not completed, as in Kafka.
    Invariant: a watch was set before a node was last read, or it is being read again.
    """

    def __init__(
        self,
        store: StoreSession,
        updates: BrokerUpdates,
        enqueue: Callable[[Operation], None],
        controller: Controller,
        epoch_version: StoreVersion,
        *,
        may_delete: Callable[[], bool],
        is_current: Callable[[], bool],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Writes are conditional on `epoch_version`.

        `may_delete` says whether topics may be deleted, `is_current` whether the term continues.
        """
        self._store = store
        self._updates = updates
        self._enqueue = enqueue
        self._controller = controller
        self._epoch_version = epoch_version
        self._may_delete = may_delete
        self._is_current = is_current
        self._on_failed = on_failed
        self._targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        """What the node of reassignments asks for; what is being removed from it is included."""
        self._begun: set[TopicPartition] = set()
        """Those of `_targets` that go on."""
        self._ended: set[TopicPartition] = set()
        """Those of `_targets` that have ended, or were refused, and are being removed."""
        self._version = NO_VERSION
        self._is_writing = False
        self._deleting: set[str] = set()

    def begin(self) -> None:
        """This broker is the controller: look at all nodes, and watch them."""
        self._load_reassignments()
        self._load_elections()
        self._load_deletions()

    # -- reassignments -----------------------------------------------------------------------

    def on_written(self, plan: Plan) -> None:
        """Partitions have changed, or topics are gone: some reassignments may have ended."""
        if self._begun:
            changed = self._begun & plan.changed.keys()
            if plan.deleted:
                gone = frozenset(plan.deleted)
                changed |= {each for each in self._begun if each.topic in gone}
            self._remove({each for each in changed if not self._is_moving(each)})

    def _load_reassignments(self) -> None:
        self._submit(
            lambda store: store.admin.load_reassignments(
                self._epoch_version, lambda: self._look_again(self._load_reassignments)
            ),
            self._on_reassignments,
        )

    def _on_reassignments(self, found: NodeReassignments | None) -> None:
        if found is None:
            self._targets, self._version = {}, NO_VERSION
            self._begun.clear()
            self._ended.clear()
            return
        new = {
            partition: target
            for partition, target in found.targets.items()
            if self._targets.get(partition) != target
        }
        known = found.targets.keys() - new.keys()
        self._targets, self._version = found.targets, found.version
        self._begun &= known
        self._ended &= known
        if new:
            alter_in_parts(
                self._enqueue,
                self._updates,
                tuple(new.items()),
                UPDATE_TIMEOUT_MS,
                self._on_begun,
                may_change_factor=True,
            )
        elif self._ended or not found.targets:
            self._remove_ended()

    def _on_begun(self, _outcome: Outcome, begun: list[tuple[TopicPartition, Outcome]]) -> None:
        if not self._is_current():
            return
        _report("a reassignment", begun)
        accepted = {partition for partition, (code, _) in begun if code in _DONE}
        self._begun |= accepted
        refused = {partition for partition, _ in begun if partition not in accepted}
        # Whether those that go on have this target is seen when they change.
        self._remove(refused | accepted - self._controller.reassigning.partitions.keys())

    def _remove(self, ended: Set[TopicPartition]) -> None:
        """These have ended, or were refused."""
        self._begun -= ended
        self._ended |= ended
        if self._ended:
            self._remove_ended()

    def _is_moving(self, partition: TopicPartition) -> bool:
        """Whether the partition is on its way to the target that the node has for it."""
        state = self._controller.state.partition(partition)
        if state is None or not state.is_reassigning:
            return False
        target = tuple(broker for broker in state.replicas if broker not in state.removing)
        return target == self._targets.get(partition)

    def _remove_ended(self) -> None:
        """Remove from the node what has ended; the node too, if nothing is left."""
        if self._is_writing or self._version == NO_VERSION:
            return
        self._is_writing = True
        removed, version = frozenset(self._ended), self._version
        rest = {each: target for each, target in self._targets.items() if each not in removed}
        self._submit(
            lambda store: store.admin.write_reassignments(rest, version, self._epoch_version),
            lambda new_version: self._on_node_written(removed, version, new_version),
        )

    def _on_node_written(
        self, removed: frozenset[TopicPartition], version: StoreVersion, new_version: StoreVersion
    ) -> None:
        self._is_writing = False
        if new_version == version:
            return  # the store is full: tried again when something else has ended
        if self._version == version:
            self._version = new_version
            for partition in removed:
                self._targets.pop(partition, None)
            self._ended -= removed
        # Else somebody has changed the node before it was written, and it has been read since.
        if self._ended:
            self._remove_ended()

    # -- elections ---------------------------------------------------------------------------

    def _load_elections(self) -> None:
        self._submit(
            lambda store: store.admin.load_elections(
                self._epoch_version, lambda: self._look_again(self._load_elections)
            ),
            self._on_elections,
        )

    def _on_elections(self, found: NodeElections | None) -> None:
        if found is None:
            return

        def on_done(_outcome: Outcome, elected: list[tuple[TopicPartition, Outcome]]) -> None:
            if self._is_current():
                _report("an election of a preferred replica", elected)
                self._submit(
                    lambda store: store.admin.remove_elections(found.version, self._epoch_version),
                    lambda _: None,
                )

        elect_in_parts(
            self._enqueue,
            self._updates,
            ElectionType.PREFERRED,
            found.partitions,
            tuple,
            UPDATE_TIMEOUT_MS,
            on_done,
        )

    # -- deletions ---------------------------------------------------------------------------

    def _load_deletions(self) -> None:
        self._submit(
            lambda store: store.admin.load_deletions(
                lambda: self._look_again(self._load_deletions)
            ),
            self._on_deletions,
        )

    def _on_deletions(self, names: frozenset[str]) -> None:
        new = sorted(names - self._deleting)
        if not new:
            return
        self._deleting.update(new)
        if not self._may_delete():
            disabled = Outcome(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false")
            self._on_deleted([(name, disabled) for name in new])
            return
        self._enqueue(
            DeleteTopics(
                self._updates,
                [(name, None) for name in new],
                UPDATE_TIMEOUT_MS,
                lambda outcomes: self._on_deleted(
                    [(str(name), outcome) for name, _, outcome in outcomes]
                ),
            )
        )

    def _on_deleted(self, outcomes: list[tuple[str, Outcome]]) -> None:
        if not self._is_current():
            return
        _report("a deletion of a topic", outcomes)
        names = [name for name, _ in outcomes]
        self._submit(
            lambda store: store.admin.remove_deletions(names, self._epoch_version),
            lambda _: self._deleting.difference_update(names),
        )

    # -- shared ------------------------------------------------------------------------------

    def _look_again(self, load: Callable[[], None]) -> None:
        if self._is_current():
            load()

    def _submit(self, call: Callable[[ClusterStore], T], on_done: Callable[[T], None]) -> None:
        self._store.submit(
            call, lambda result: on_done(result) if self._is_current() else None, self._on_failed
        )


def _report(what: str, outcomes: Iterable[tuple[TopicPartition | str, Outcome]]) -> None:
    """Log in one line what is refused."""
    refused = [(name, outcome) for name, outcome in outcomes if outcome.code not in _DONE]
    if not refused:
        return
    named = [
        f"{name}: {detail or code.name}" for name, (code, detail) in islice(refused, _NAMED_MAX)
    ]
    if len(refused) > _NAMED_MAX:
        named.append(f"... and {len(refused) - _NAMED_MAX} more")
    log.warning("refused %s that a node below /admin asks for: %s", what, "; ".join(named))
