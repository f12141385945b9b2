"""Options of the transaction coordinator; the broker settings and defaults are Kafka's."""

from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 24 * 60 * 60 * 1_000


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """Times of transactional ids."""

    id_expiration_ms: int = 7 * DAY_MS
    """`transactional.id.expiration.ms`."""
    timeout_check_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    expiry_check_interval_ms: int = 60 * 60 * 1_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`."""
    wait_max_ms: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`: how long a request waits for an earlier
    transition before its client is told to try again."""
