"""Translates the errors of appends for the requests that wait for them. Pure.

Kafka: `appendGroupMetadataErrorToResponseError` and its counterpart for offsets.
"""

from typing import Final

from cluster.model.error_codes import ErrorCode

_GROUP: Final = {
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
_OFFSETS: Final = _GROUP | {
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.invalid_fetch_size: ErrorCode.invalid_commit_offset_size,
}


def group_error(error: ErrorCode) -> ErrorCode:
    """The error for members whose generation could not be stored, and for deletions."""
    return _GROUP.get(error, error)


def offset_error(error: ErrorCode) -> ErrorCode:
    """The error for commits of offsets."""
    return _OFFSETS.get(error, error)
