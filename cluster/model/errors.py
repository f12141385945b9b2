"""The kinds of error: refused requests, bad peers, failed storage, users' mistakes, our bugs."""

from collections.abc import Sequence
from typing import NamedTuple

from cluster.model.error_codes import ErrorCode

__all__ = [
    "ErrorCode",
    "InvariantViolated",
    "PeerError",
    "RecordError",
    "RecordsRefused",
    "Refused",
    "StorageFailed",
    "UserError",
    "ensure",
]


class Refused(Exception):
    """A request item is answered with an error code; the connection stays open."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(f"{code.name}: {detail}" if detail else code.name)
        self.code = code
        self.detail = detail

    @property
    def reason(self) -> str:
        """The text for a person: the detail, or the name of the code."""
        return self.detail or self.code.name.upper()


class RecordError(NamedTuple):
    """Why one record of a produced batch was refused; records are counted from 0 (KIP-467)."""

    batch_index: int
    message: str


class RecordsRefused(Refused):
    """A produced batch was refused because of some of its records."""

    def __init__(self, code: ErrorCode, detail: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


class PeerError(Exception):
    """The peer violated the protocol: its connection is closed with one log line."""


class StorageFailed(Exception):
    """The disk failed (full, missing, no permission); the text is one line for the operator."""


class UserError(Exception):
    """A person's mistake on the command line or in a file."""


class InvariantViolated(BaseException):
    """A bug of ours: the process must end. Not an Exception, so no blanket except catches it."""


def ensure(condition: object, what: str) -> None:
    """Raise InvariantViolated(what) unless it holds; never use it for a claim made by a peer."""
    if not condition:
        raise InvariantViolated(what)
