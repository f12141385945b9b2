"""Translates the errors of appends for the requests that wait for them. Pure.

Kafka: `appendGroupMetadataErrorToResponseError`, `TransactionStateManager.appendTransactionToLog`.
"""

from typing import Final

from cluster.model.error_codes import ErrorCode

_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """The error for a client whose coordinator could not store its state."""
    return _ERRORS.get(error, error)
