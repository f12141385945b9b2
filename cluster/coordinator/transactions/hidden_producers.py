"""Producer ids whose transactional ids a user may not describe, as coordinators list them. Pure.

ListTransactions leaves such ids out, so that a tool cannot tell their transactions from those that
no coordinator knows.
"""

from dataclasses import dataclass
from typing import Final

from cluster.model.error_codes import ErrorCode
from cluster.protocol.peer.field_types import ERROR_CODE, LONG, listed, record
from cluster.protocol.peer.packed_body import PackedBody

_MANY: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class HiddenProducersAnswer:
    """The answer of one broker."""

    code: ErrorCode
    """COORDINATOR_LOAD_IN_PROGRESS: it does not know all yet."""
    producer_ids: tuple[int, ...]
    """The hidden ones among those that were asked about, in ascending order."""


QUESTION: Final = PackedBody[tuple[int, ...]](listed(LONG, _MANY))
"""The body of a request: producer ids."""
ANSWER: Final = PackedBody[HiddenProducersAnswer](
    record(HiddenProducersAnswer, code=ERROR_CODE, producer_ids=listed(LONG, _MANY))
)
"""The body of an answer."""
