"""Forgets brokers that have left the cluster."""

from collections.abc import Callable

from cluster.coordinator.cluster_store import StoreSession, outcome_of
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome


class DepartedBrokers:
    """Changes what the registry has of brokers that are not alive."""

    def __init__(self, store: StoreSession) -> None:
        self._store = store

    def forget(self, broker: BrokerId, on_done: Callable[[Outcome], None]) -> None:
        """Remove the record of a broker; refused for a live one, and where there is no record."""
        self._store.submit(
            lambda store: store.brokers.forget(broker),
            lambda _done: on_done(Outcome(ErrorCode.none)),
            lambda error: on_done(outcome_of(error)),
        )
