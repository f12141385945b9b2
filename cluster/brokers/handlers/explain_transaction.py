"""ExplainTransaction (API key 31001, specific to this cluster, version 0): the state of a
transactional id and its last transactions.

As ExplainGroup, Kafka does not have it; `coordinator/transactions/explanation.py` defines the
bodies. Only the coordinator knows something; each answer has an error code.
"""

from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_TRANSACTIONAL_ID, check
from cluster.brokers.handlers.own_requests import own_request
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import TransactionServices
from cluster.coordinator.transactions.explanation import (
    ANSWER,
    QUESTION,
    ExplainTransaction,
    ExplainTransactionAnswer,
    TransactionExplanation,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, OwnApiKey

API: Final = Api(OwnApiKey.EXPLAIN_TRANSACTION, 0, 0)


def handle(
    transactional_id: str, context: RequestContext, services: TransactionServices
) -> ExplainTransactionAnswer:
    """What this broker knows of a transactional id."""
    code = ErrorCode.none
    found: TransactionExplanation | None = None
    try:
        check(services, context, DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        led = services.transactions.find(transactional_id)
        since_ms = led.since_wall_ms
        found = led.ask(ExplainTransaction(transactional_id, -1 if since_ms is None else since_ms))
        if found is None:
            code = ErrorCode.transactional_id_not_found
    except Refused as refused:
        code = refused.code
        is_there = services.transactions.partition_of(transactional_id) is not None
        if code is ErrorCode.not_coordinator and not is_there:
            code = ErrorCode.transactional_id_not_found  # __transaction_state does not exist yet
    return ExplainTransactionAnswer(code, services.broker_id, services.clock.wall_ms(), found)


HANDLER: Final = own_request(
    API,
    handle,
    TransactionServices,
    QUESTION.read,
    ANSWER.pack,
    authorizes=(DESCRIBE_TRANSACTIONAL_ID,),
)
