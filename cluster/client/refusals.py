"""Says in a sentence why a broker refused a request."""

from collections.abc import Mapping
from typing import Final

from cluster.model.errors import ErrorCode, Refused

_TEXTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.group_id_not_found: "The group id does not exist",
    ErrorCode.non_empty_group: "The group is not empty",
    ErrorCode.invalid_group_id: "Invalid group id",
}


def reason_of(refused: Refused) -> str:
    """The broker's words, else those of the error code."""
    if refused.detail:
        return refused.detail
    return _TEXTS.get(refused.code) or refused.code.name.replace("_", " ").capitalize()
