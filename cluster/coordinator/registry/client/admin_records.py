"""The nodes by which tools of Kafka's ZooKeeper mode ask the controller for something."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NoNodeError,
    NotReadOnlyCallError,
)

from cluster.coordinator.cluster_store import (
    NO_VERSION,
    Deposed,
    NodeElections,
    NodeReassignments,
    OnChange,
    StoreVersion,
)
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.ids import BrokerId, TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")


class AdminRecords:
    """An `AdminStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load_reassignments(
        self, controller: StoreVersion, on_change: OnChange | None = None
    ) -> NodeReassignments | None:
        path, decode = paths.REASSIGN_PARTITIONS, znodes.decode_reassignments
        found = self._load(path, decode, controller, on_change)
        return None if found is None else NodeReassignments(*found)

    def write_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[BrokerId, ...]],
        version: StoreVersion,
        controller: StoreVersion,
    ) -> StoreVersion:
        if not targets:
            self._remove(paths.REASSIGN_PARTITIONS, version, controller)
            return NO_VERSION
        document = znodes.encode_reassignments(targets)
        try:
            self._write(
                lambda t: t.set_data(paths.REASSIGN_PARTITIONS, document, version=version),
                controller,
            )
        except NotReadOnlyCallError:  # the disk of the registry is full: it names some for longer
            return version
        return StoreVersion(version + 1)

    def load_elections(
        self, controller: StoreVersion, on_change: OnChange | None = None
    ) -> NodeElections | None:
        path, decode = paths.PREFERRED_REPLICA_ELECTION, znodes.decode_elections
        found = self._load(path, decode, controller, on_change)
        return None if found is None else NodeElections(*found)

    def remove_elections(self, version: StoreVersion, controller: StoreVersion) -> None:
        self._remove(paths.PREFERRED_REPLICA_ELECTION, version, controller)

    def load_deletions(self, on_change: OnChange | None = None) -> frozenset[str]:
        try:
            names = self._client.get_children(paths.DELETE_TOPICS, watch=self._watch(on_change))
        except NoNodeError:
            # Somebody has removed what every broker creates when it starts.
            self._client.ensure_path(paths.DELETE_TOPICS)
            names = self._client.get_children(paths.DELETE_TOPICS, watch=self._watch(on_change))
        return frozenset(names)

    def remove_deletions(self, names: Iterable[str], controller: StoreVersion) -> None:
        for name in names:
            self._remove(paths.delete_topic(name), NO_VERSION, controller)

    def _load(
        self,
        path: str,
        decode: Callable[[bytes], T],
        controller: StoreVersion,
        on_change: OnChange | None,
    ) -> tuple[T, StoreVersion] | None:
        stat = self._client.exists(path, watch=self._watch(on_change))
        if stat is None:
            return None
        try:
            document, stat = self._client.get(path)
            return decode(document), StoreVersion(stat.version)
        except NoNodeError:
            return None
        except (NoAuthError, ValueError) as error:
            log.warning("removed %s, which cannot be read: %s", path, error or "no right to it")
            self._remove(path, StoreVersion(stat.version), controller)
            return None

    def _remove(self, path: str, version: StoreVersion, controller: StoreVersion) -> None:
        self._write(lambda t: t.delete(path, version=version), controller)

    def _write(
        self, write: Callable[[TransactionRequest], object], controller: StoreVersion
    ) -> None:
        transaction = self._client.transaction()
        transaction.check(paths.CONTROLLER_EPOCH, controller)
        write(transaction)
        results: list[Any] = transaction.commit()
        if isinstance(results[0], BadVersionError | NoNodeError):
            raise Deposed
        failure = results[1]
        if isinstance(failure, NotReadOnlyCallError):
            raise failure
        # A node that somebody has changed or removed is read again: its watch is notified.
        if isinstance(failure, Exception) and not isinstance(
            failure, BadVersionError | NoNodeError
        ):
            log.warning("cannot remove or replace a node below /admin: %r", failure)
