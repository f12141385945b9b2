"""Asks the leaders of partitions and the coordinators of their transactions what holds the last
stable offsets back.
"""

from collections.abc import Callable, Collection
from typing import Final

from cluster.client.admin import Admin
from cluster.client.explanation_requests import (
    ExplainedPartitions,
    explain_transaction,
    hidden_among,
)
from cluster.client.refusals import reason_of
from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import find_producer
from cluster.coordinator.transactions.held_back import HeldPartition
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.runtime.clock import Clock, SystemClock
from cluster.views.known_holders import (
    NOT_DESCRIBED,
    Holder,
    KnownId,
    Verdict,
    holder_of,
    still_held,
)

AskLeaders = Callable[[], ExplainedPartitions]

_UNKNOWN_MS: Final = 30_000


class ProducerNames:
    """The transactional ids of producer ids that were looked for.

    Without one, each coordinator has to look through all its ids.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names: dict[int, str] = {}
        self._unknown: dict[int, MonotonicMs] = {}
        """When coordinators said that they do not know it."""

    def name_of(self, producer_id: int) -> str | None:
        """Its transactional id, as far as it was found."""
        return self._names.get(producer_id)

    def is_unknown(self, producer_id: int) -> bool:
        """Whether no coordinator knew it a short while ago."""
        asked_ms = self._unknown.get(producer_id)
        return asked_ms is not None and self._clock.monotonic_ms() - asked_ms < _UNKNOWN_MS

    def found(self, producer_id: int, name: str | None) -> None:
        """Note what the coordinators said; None if none of them knows it."""
        if name is None:
            self._unknown[producer_id] = self._clock.monotonic_ms()
        else:
            self._names[producer_id] = name

    def keep(self, producer_ids: Collection[int]) -> None:
        """Forget all others."""
        self._names = {each: name for each, name in self._names.items() if each in producer_ids}
        self._unknown = {each: at for each, at in self._unknown.items() if each in producer_ids}


def find_holders(
    admin: Admin, ask: AskLeaders, names: ProducerNames | None = None
) -> tuple[ExplainedPartitions, list[Holder]]:
    """The answers of the leaders, and what holds each partition back that they name.

    A transaction that its coordinator does not know may have ended since the leader was asked: it
    counts as hanging only if it is still open afterwards. `names` are kept from one call to the
    next by who asks often.
    """
    names = names or ProducerNames(SystemClock())
    told = ask()
    holders = _holders(admin, told, names)
    suspects = [each for each in holders if each.verdict is Verdict.HANGING]
    if suspects:
        again = ask()
        if len(still_held(suspects, again)) < len(suspects):
            told, holders = again, _holders(admin, again, names)
    return told, holders


def _holders(admin: Admin, told: ExplainedPartitions, names: ProducerNames) -> list[Holder]:
    known: dict[int, tuple[KnownId | None, str]] = {}

    def holder(place: Place, partition: HeldPartition) -> Holder:
        writers = {each.producer.producer_id: each.writer for each in partition.open}

        def find(producer_id: int) -> tuple[KnownId | None, str]:
            if producer_id not in known:
                writer = writers.get(producer_id)
                name = None if writer is None else writer.transactional_id
                known[producer_id] = _known(admin, producer_id, name, names)
            return known[producer_id]

        return holder_of(place, told.leaders[place], partition, find)

    return [holder(place, partition) for place, partition in sorted(told.held.items())]


def _known(
    admin: Admin, producer_id: int, written_as: str | None, names: ProducerNames
) -> tuple[KnownId | None, str]:
    """What coordinators know of a producer, whose transactional id its leader may have seen; or
    why that is not known."""
    try:
        for name in filter(None, (written_as, names.name_of(producer_id))):
            known = _explained(admin, name)
            if _is_of(known, producer_id):
                return known, ""
        if names.is_unknown(producer_id):
            return None, ""
        found, problems = find_producer(admin, producer_id)
        if found is None:
            if not problems and hidden_among(admin, (producer_id,)):
                problems.append(NOT_DESCRIBED)
            if not problems:
                names.found(producer_id, None)
            return None, "; ".join(problems)
        names.found(producer_id, found.transactional_id)
        return _explained(admin, found.transactional_id), ""
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
