"""The errors of appends for commits of offsets. Pure.

Kafka: the counterpart of `appendGroupMetadataErrorToResponseError` for offsets.
"""

from typing import Final

from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.model.error_codes import ErrorCode

_TOO_LARGE: Final = frozenset(
    {
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_fetch_size,
    }
)


def offset_error(error: ErrorCode) -> ErrorCode:
    """The error for commits of offsets."""
    return ErrorCode.invalid_commit_offset_size if error in _TOO_LARGE else coordinator_error(error)
