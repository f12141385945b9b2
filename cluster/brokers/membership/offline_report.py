"""Tells the controller which replicas here are offline, until it tells all brokers the same.

Every update of the controller says what it takes to be offline: so one that has just taken over, or
has seen this broker register again, is told again.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from cluster.brokers.replication.offline_replicas import OfflineReplicas
from cluster.model.cluster import OfflinePartitions
from cluster.model.ids import BrokerId
from cluster.protocol.peer.control import ClusterUpdate

log = logging.getLogger(__name__)

_RETRY_MS: Final = 500


class ReportsToController(Protocol):
    """The way to the controller."""

    def report_offline(
        self, offline: tuple[OfflinePartitions, ...], on_done: Callable[[], None]
    ) -> None:
        """Tell it all replicas that are offline here; calls back once, with or without answer."""
        ...


class OfflineReport:
    """Owned by the broker's thread. Invariant: at most one report is under way, or to be sent."""

    def __init__(
        self,
        local_id: BrokerId,
        replicas: OfflineReplicas,
        controller: ReportsToController,
        defer: Callable[[Callable[[], None]], None],
        call_after: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self._local_id = local_id
        self._replicas = replicas
        self._controller = controller
        self._defer = defer
        self._call_after = call_after
        self._known: frozenset[OfflinePartitions] = frozenset()
        """What the last update of the controller said of this broker."""
        self._is_under_way = False
        replicas.subscribe(self._look)

    def on_update(self, update: ClusterUpdate) -> None:
        """Compare what the controller knows with what is."""
        if not update.offline and not len(self._replicas) and not self._known:
            return
        self._known = frozenset(each for each in update.offline if each.broker == self._local_id)
        self._look()

    def _look(self) -> None:
        """At the end of the turn: a directory takes many replicas with it."""
        if not self._is_under_way:
            self._is_under_way = True
            self._defer(self._send)

    def _send(self) -> None:
        offline = tuple(
            OfflinePartitions(self._local_id, topic_id, numbers)
            for topic_id, numbers in self._replicas.by_topic().items()
        )
        if frozenset(offline) == self._known:
            self._is_under_way = False
        else:
            self._controller.report_offline(offline, self._on_answered)

    def _on_answered(self) -> None:
        # The update that it answers with comes first; where none comes, ask again.
        self._call_after(_RETRY_MS, self._send)
