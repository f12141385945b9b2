"""ListHiddenProducers (API key 31003, specific to this cluster, version 0): which of some producer
ids have a transactional id that this broker coordinates and the client may not describe.

As ExplainGroup, Kafka does not have it; `coordinator/transactions/hidden_producers.py` defines the
bodies. The transactional ids themselves are not told.
"""

from collections.abc import Iterator
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_TRANSACTIONAL_ID, may
from cluster.brokers.handlers.own_requests import own_request
from cluster.brokers.handlers.request import NotYet, RequestContext
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.handlers.sliced_answer import gathered
from cluster.coordinator.transactions.hidden_producers import (
    ANSWER,
    QUESTION,
    HiddenProducersAnswer,
)
from cluster.coordinator.transactions.requests import ListTransactions
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, OwnApiKey

API: Final = Api(OwnApiKey.LIST_HIDDEN_PRODUCERS, 0, 0)


def handle(
    producer_ids: tuple[int, ...], context: RequestContext, services: TransactionServices
) -> HiddenProducersAnswer | NotYet:
    """If there are many ids, they are looked through in slices."""
    if services.transactions.is_loading:
        return HiddenProducersAnswer(ErrorCode.coordinator_load_in_progress, ())
    hidden: set[int] = set()
    steps = _gather(producer_ids, hidden, context, services)
    return gathered(steps, lambda: _found(hidden), context, services.slices)


def _gather(
    producer_ids: tuple[int, ...],
    hidden: set[int],
    context: RequestContext,
    services: TransactionServices,
) -> Iterator[None]:
    if not producer_ids:
        return  # the query would find all
    asked = ListTransactions(frozenset(), frozenset(producer_ids), -1, None)
    for led in services.transactions.all_loaded():
        for piece in led.ask(asked):
            for each in piece:
                name = each.transactional_id
                if not may(services, context, DESCRIBE_TRANSACTIONAL_ID, name, is_audited=False):
                    hidden.add(each.producer.producer_id)
            yield


def _found(hidden: set[int]) -> HiddenProducersAnswer:
    return HiddenProducersAnswer(ErrorCode.none, tuple(sorted(hidden)))


HANDLER: Final = own_request(
    API,
    handle,
    TransactionServices,
    QUESTION.read,
    ANSWER.pack,
    authorizes=(DESCRIBE_TRANSACTIONAL_ID,),
)
