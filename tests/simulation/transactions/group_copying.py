"""Copiers that share the partitions of a group: its generation fences those that were replaced."""

from collections.abc import Callable, Sequence

from cluster.model.ids import TopicPartition
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.transactions.client_process import BACKOFF_MS, ClientProcess, Pause, Script
from tests.simulation.transactions.copying import Copier, committed_offsets
from tests.simulation.transactions.histories import (
    INPUTS,
    OUTPUTS,
    SETTINGS,
    Client,
    TransactionHistory,
)
from tests.simulation.transactions.membership import (
    GROUP_SETTINGS,
    ClassicMembership,
    Membership,
    NewerMembership,
)
from tests.simulation.transactions.producing import TransactionalProducer
from tests.simulation.transactions.reading import Consumer
from tests.simulation.transactions.verdict import Copied

GROUPED = SETTINGS | GROUP_SETTINGS
"""Settings of brokers."""
_GROUP = "copiers"
_PAUSES_MS = (0, 0, 0, 0, 0, 0, 200, 1_000, 3_500)
_NewMembership = Callable[[ClientProcess, str, Sequence[TopicPartition]], Membership]


class GroupCopier(Copier):
    """One process that copies what its group gives to it, and never stops for others: it may go on
    with a transaction when its partitions have another owner.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        consumer: Consumer,
        partitions: Sequence[TopicPartition],
        new_membership: _NewMembership,
        pauses_ms: Sequence[int],
    ) -> None:
        super().__init__(producer, consumer, partitions, partitions)
        self._pauses_ms = pauses_ms
        self._group = _GROUP
        self._membership = new_membership(producer.process, _GROUP, partitions)

    def run(self) -> Script[None]:
        """Copy until it is told to stop."""
        yield from self._producer.initialize()
        while not self.is_stopping:
            yield from self._membership.join(lambda: self.is_stopping)
            yield from self._copy_as_member()

    def _copy_as_member(self) -> Script[None]:
        positions = None
        while not self.is_stopping and (yield from self._membership.beat()):
            self._member, own = self._membership.member, self._membership.partitions
            if not own:
                yield Pause(BACKOFF_MS)
            elif positions is None:
                positions = yield from committed_offsets(self._process, _GROUP, own)
                yield Pause(BACKOFF_MS)
            elif not (yield from self._copy_some(self._process.random.choice(own), positions)):
                positions = None


class GroupedCopiers(TransactionHistory):
    """Three copiers of one group, of either protocol of groups."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        is_newer = cluster.random.random() < 0.5
        self._new_membership: _NewMembership = NewerMembership if is_newer else ClassicMembership
        self._pauses_ms = [*_PAUSES_MS]
        super().__init__(cluster)

    def _new_copiers(self) -> list[Client]:
        return [
            self._client("member-old", self._member, is_new=False),
            self._client("member-new", self._member, is_new=True),
            self._client("member-third", self._member, is_new=True),
        ]

    def _member(self, producer: TransactionalProducer) -> GroupCopier:
        consumer = Consumer(producer.process, self.ledger)
        return GroupCopier(
            producer, consumer, INPUTS + OUTPUTS, self._new_membership, self._pauses_ms
        )

    def _finish(self) -> None:
        self._pauses_ms.clear()
        super()._finish()

    def _copied(self) -> list[Copied]:
        ids = frozenset(each.transactional_id for each in self._copiers)
        return [Copied(ids, self._offsets(_GROUP, INPUTS + OUTPUTS))]
