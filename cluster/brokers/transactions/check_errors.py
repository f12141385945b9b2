"""The errors of `TransactionChecks` as clients of different ages understand them. Pure.

Kafka: `AddPartitionsToTxnManager`, `ReplicaManager.handleProduceAppend`.
"""

from enum import Enum, auto
from typing import Final

from cluster.model.errors import ErrorCode


class ClientAge(Enum):
    """What a client of transactions knows of KIP-890."""

    BEFORE = auto()
    KNOWS_ABORTABLE = auto()
    """It knows TRANSACTION_ABORTABLE."""
    ADDS_BY_WRITING = auto()
    """It leaves adding partitions to the leaders."""


_NOT_REACHED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


def produce_error(code: ErrorCode, age: ClientAge) -> ErrorCode:
    """For Produce, whose older clients repeat few errors: NOT_ENOUGH_REPLICAS among them."""
    if code in _NOT_REACHED:
        return ErrorCode.not_enough_replicas
    if code is ErrorCode.concurrent_transactions and age is not ClientAge.ADDS_BY_WRITING:
        return ErrorCode.not_enough_replicas
    return _common(code, age)


def commit_error(code: ErrorCode, age: ClientAge) -> ErrorCode:
    """For TxnOffsetCommit: older clients repeat it without looking for another coordinator."""
    if code is ErrorCode.network_exception:
        return ErrorCode.coordinator_load_in_progress
    return _common(code, age)


def _common(code: ErrorCode, age: ClientAge) -> ErrorCode:
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code is ErrorCode.transaction_abortable and age is ClientAge.BEFORE:
        return ErrorCode.invalid_txn_state
    return code
