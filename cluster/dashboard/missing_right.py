"""Says why brokers refused a request of the page, and which access rule would allow it."""

import contextlib
from collections.abc import Iterator
from typing import Final

from cluster.client.refusals import allowing_words, principal_of, reason_of
from cluster.dashboard.broker_connection import security_of
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.runtime.installation import launcher

_DENIALS: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)


@contextlib.contextmanager
def explained_refusals(files: DataDir, operation: str, *resources: str) -> Iterator[None]:
    """Raises UserError for Refused: the reason, and the `acls --add` of the operation on resources
    such as `--topic orders`, if the page's own user lacks that rule; see `allowing_words`.
    """
    try:
        yield
    except Refused as refused:
        raise UserError(refusal_text(files, refused, operation, *resources)) from None


def refusal_text(files: DataDir, refused: Refused, operation: str, *resources: str) -> str:
    """The reason, with that command line if a rule is missing."""
    if refused.code not in _DENIALS:
        return reason_of(refused)
    words = allowing_words(principal_of(security_of(files)), operation, resources)
    return f"{reason_of(refused)}; to allow it: {launcher(files.path)} acls {words}"
