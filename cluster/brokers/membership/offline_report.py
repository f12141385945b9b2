"""Reports offline replicas of this broker to the controller until its updates list the same ones.

Every update of the controller contains its view of offline replicas, so a new controller, or one
that has seen this broker register again, gets a new report.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from cluster.brokers.replication.offline_replicas import OfflineReplicas
from cluster.model.cluster import OfflinePartitions
from cluster.model.ids import BrokerId
from cluster.protocol.peer.control import ClusterUpdate

log = logging.getLogger(__name__)

REPORT_AGAIN_MS: Final = 500
"""The delay before a report is repeated that no update of the controller has confirmed."""


class ReportsToController(Protocol):
    """The requests to the controller that are used here."""

    def report_offline(
        self, offline: tuple[OfflinePartitions, ...], on_done: Callable[[], None]
    ) -> None:
        """Report all offline replicas here; calls back once, with or without an answer."""
        ...


class OfflineReport:
    """Owned by the broker's thread. Invariant: at most one report is in progress or waiting to be
    sent.
    """

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
        """The offline replicas of this broker according to the controller's last update."""
        self._is_under_way = False
        replicas.subscribe(self._look)

    def on_update(self, update: ClusterUpdate) -> None:
        """Compare the controller's view with the present state."""
        if not update.offline and not len(self._replicas) and not self._known:
            return
        self._known = frozenset(each for each in update.offline if each.broker == self._local_id)
        self._look()

    def _look(self) -> None:
        """Report at the end of the event loop's iteration, since a failed directory takes many
        replicas offline.
        """
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
        # An update from the controller arrives before this answer; if none does, report again.
        self._call_after(REPORT_AGAIN_MS, self._send)
