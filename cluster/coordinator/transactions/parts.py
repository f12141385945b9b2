"""The shared state of one shard. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.coordinator.shards.alarms import Alarms
from cluster.coordinator.shards.outbox import Outbox
from cluster.coordinator.transactions.counts import TransactionCounts
from cluster.coordinator.transactions.history import TransactionHistories
from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.transaction import Transaction
from cluster.coordinator.transactions.waits import Waits
from cluster.model.ids import LeaderEpoch


@dataclass(slots=True)
class ShardParts:
    """The transactional ids of a shard, its pending effects and its deadlines."""

    options: Callable[[], TransactionOptions]
    """The current ones: some change in use."""
    coordinator_epoch: LeaderEpoch
    histories: TransactionHistories = field(default_factory=TransactionHistories)
    counts: TransactionCounts = field(default_factory=TransactionCounts)
    """Both are shared by all shards of a broker."""
    transactions: dict[str, Transaction] = field(default_factory=dict)
    ongoing: dict[str, None] = field(default_factory=dict)
    """Ids whose transaction is open, in the order in which they began."""
    outbox: Outbox = field(default_factory=Outbox)
    alarms: Alarms = field(default_factory=Alarms)
    waits: Waits = field(init=False)

    def __post_init__(self) -> None:
        self.waits = Waits(self.alarms)
