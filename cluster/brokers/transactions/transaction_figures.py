"""The figures of transactions for a broker's metrics."""

from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.brokers.transactions.transaction_checks import TransactionChecks
from cluster.brokers.transactions.transaction_coordinator import TransactionCoordinator
from cluster.coordinator.transactions.counts import TransactionCounts
from cluster.coordinator.transactions.requests import CountOpen, CountRetried, OpenCount


class TransactionFigures:
    """Reads them; changes nothing. Implements the protocol of the same name in the publisher."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        sender: MarkerSender,
        checks: TransactionChecks,
    ) -> None:
        self._coordinator = coordinator
        self._sender = sender
        self._checks = checks

    def open_transactions(self) -> OpenCount:
        """Those that this broker coordinates."""
        found = [led.ask(CountOpen()) for led in self._coordinator.all_loaded()]
        begun = [each.oldest_start_ms for each in found if each.oldest_start_ms is not None]
        return OpenCount(sum(each.number for each in found), min(begun, default=None))

    @property
    def counts(self) -> TransactionCounts:
        """Transactions that have ended since the start."""
        return self._coordinator.counts

    def retried_ends(self) -> int:
        """Transactions whose last record could not be written, and is tried again."""
        return sum(led.ask(CountRetried()) for led in self._coordinator.all_loaded())

    @property
    def without_leader_count(self) -> int:
        """Markers that wait because their partition has no leader."""
        return self._sender.without_leader_count

    @property
    def unmarked_count(self) -> int:
        """Markers of ended transactions that are not known to be written."""
        return self._sender.unmarked_count

    @property
    def failed_verifications(self) -> int:
        """Partitions whose transaction was not verified, since the start."""
        return self._checks.failed_count

    @property
    def verification_ms(self) -> int:
        """Time that verifications took, since the start."""
        return self._checks.time_ms
