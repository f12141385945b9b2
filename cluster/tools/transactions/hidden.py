"""Transactions that the user may not see, which are not to be taken for hanging ones."""

import sys
from collections.abc import Collection

from cluster.client.admin import Admin
from cluster.client.explanation_requests import hidden_among
from cluster.model.errors import UserError


def hidden_from_user(admin: Admin, producer_ids: Collection[int]) -> set[int]:
    """Those producer ids whose transactional ids the user may not describe.

    None, with a warning, where that cannot be asked, as of Kafka's brokers. Raises Refused.
    """
    if not producer_ids:
        return set()
    try:
        return hidden_among(admin, producer_ids)
    except UserError as problem:
        print(
            "warning: not known whether this user may describe the transactional ids of all"
            f" transactions: {problem}",
            file=sys.stderr,
        )
        return set()
