"""Asks the leaders of partitions and the coordinators of their transactions what holds the last
stable offsets back.
"""

from collections.abc import Callable

from cluster.client.admin import Admin
from cluster.client.explanation_requests import ExplainedPartitions, explain_transaction
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import find_producer
from cluster.coordinator.transactions.held_back import HeldPartition
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.tools.transactions.known_holders import (
    Holder,
    KnownId,
    Verdict,
    holder_of,
    still_held,
)

AskLeaders = Callable[[], ExplainedPartitions]


def find_holders(admin: Admin, ask: AskLeaders) -> tuple[ExplainedPartitions, list[Holder]]:
    """The answers of the leaders, and what holds each partition back that they name.

    A transaction that its coordinator does not know may have ended since the leader was asked: it
    counts as hanging only if it is still open afterwards.
    """
    told = ask()
    holders = _holders(admin, told)
    suspects = [each for each in holders if each.verdict is Verdict.HANGING]
    if suspects:
        again = ask()
        if len(still_held(suspects, again)) < len(suspects):
            told, holders = again, _holders(admin, again)
    return told, holders


def _holders(admin: Admin, told: ExplainedPartitions) -> list[Holder]:
    known: dict[int, tuple[KnownId | None, str]] = {}

    def holder(place: Place, partition: HeldPartition) -> Holder:
        writers = {each.producer.producer_id: each.writer for each in partition.open}

        def find(producer_id: int) -> tuple[KnownId | None, str]:
            if producer_id not in known:
                writer = writers.get(producer_id)
                name = None if writer is None else writer.transactional_id
                known[producer_id] = _known(admin, producer_id, name)
            return known[producer_id]

        return holder_of(place, told.leaders[place], partition, find)

    return [holder(place, partition) for place, partition in sorted(told.held.items())]


def _known(admin: Admin, producer_id: int, written_as: str | None) -> tuple[KnownId | None, str]:
    """What coordinators know of a producer, whose transactional id its leader may have seen; or
    why that is not known."""
    try:
        if written_as:
            known = _explained(admin, written_as)
            if _is_of(known, producer_id):
                return known, ""
        found, problems = find_producer(admin, producer_id)
        if found is not None:
            return _explained(admin, found.transactional_id), ""
        return None, "; ".join(problems)
    except Refused as refused:
        return None, reason_of(refused)
    except UserError as problem:
        return None, str(problem)


def _explained(admin: Admin, transactional_id: str) -> KnownId | None:
    """None if there is no such id (any more)."""
    try:
        return KnownId(transactional_id, explain_transaction(admin, transactional_id))
    except Refused as refused:
        if refused.code is ErrorCode.transactional_id_not_found:
            return None
        raise


def _is_of(known: KnownId | None, producer_id: int) -> bool:
    explained = None if known is None else known.answer.transaction
    return explained is not None and explained.producer.producer_id == producer_id
