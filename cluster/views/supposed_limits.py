"""Parses supposed limits, whose effect people want to know. Pure."""

import argparse
from collections.abc import Collection
from typing import Final, NamedTuple

from cluster.model.quotas import QUOTA_KEYS, QuotaKind
from cluster.views.amounts import byte_rate, per_second, percentage

RATES: Final = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST)
"""The quotas whose delays depend on the rate alone."""
_PARSERS: Final = {
    QuotaKind.REQUEST: percentage,
    QuotaKind.MUTATION: per_second,
    QuotaKind.CONNECTION: per_second,
}
"""The parsers of amounts that are not bytes per second."""


class Supposed(NamedTuple):
    """A limit that is not set, and whose effect is wanted."""

    key: str
    kind: QuotaKind
    limit: float


def supposed(text: str, kinds: Collection[QuotaKind] = RATES) -> Supposed:
    """Parse `producer_byte_rate=2MB`, for quotas of these kinds. Raises ArgumentTypeError."""
    key, has_amount, amount = text.partition("=")
    kind = QUOTA_KEYS.get(key.strip())
    if kind is QuotaKind.CONNECTION and kind not in kinds:
        raise argparse.ArgumentTypeError(
            f"{key.strip()} limits addresses, of whose connections nothing is told here: try"
            " `quotas simulate`"
        )
    if kind is None or kind not in kinds or not has_amount:
        keys = ", ".join(key for key, kind in QUOTA_KEYS.items() if kind in kinds)
        raise argparse.ArgumentTypeError(f"must be KEY=AMOUNT with a key of {keys}, not {text}")
    return Supposed(key.strip(), kind, _PARSERS.get(kind, byte_rate)(amount))
