"""Decides which errors mean that a log directory has failed. Pure."""

import errno
from typing import Final

from cluster.model.errors import StorageFailed

_PASSING: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EINTR,
    }
)
"""A full disk, or the process's own limits: what was to be written is refused, and what is on disk
stays readable. Kafka gives a full directory up as well (decision 017)."""
_OF_A_NAME: Final = frozenset(
    {
        errno.ENOENT,
        errno.EEXIST,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENOTEMPTY,
        errno.ENAMETOOLONG,
    }
)


def has_failed(failure: StorageFailed) -> bool:
    """Whether to take the directory offline, as Kafka does on an IOException (KIP-112).

    Errors without an operating system error as their cause, such as an old message format, do not
    count.
    """
    cause = _cause_of(failure)
    return isinstance(cause, OSError) and cause.errno not in _PASSING


def concerns_a_name(failure: StorageFailed) -> bool:
    """Whether the cause may be a file of one partition that somebody removed or created by hand."""
    cause = _cause_of(failure)
    return isinstance(cause, OSError) and cause.errno in _OF_A_NAME


def _cause_of(failure: StorageFailed) -> BaseException | None:
    cause = failure.__cause__
    if cause is None and not failure.__suppress_context__:
        return failure.__context__  # modules that mypyc compiles lose what stands after `from`
    return cause
