"""ListTransactions (API key 66), versions 0-2 (KIP-664).

The transactional ids that this broker coordinates and the client may see.
v1 only transactions that are open for longer than some time (KIP-994); v2 only ids that match a
regular expression of RE2 (KIP-1152).
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_TRANSACTIONAL_ID, may
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import TransactionServices
from cluster.coordinator.groups.consumer.topic_expressions import (
    InvalidExpression,
    compile_expression,
)
from cluster.coordinator.transactions.requests import ListTransactions
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

API: Final = Api(ApiKey.LIST_TRANSACTIONS, 0, 2)

_STATES: Final = {each.label: each for each in TransactionState}


def handle(
    request: ListTransactionsRequest, context: RequestContext, services: TransactionServices
) -> ListTransactionsResponse:
    transactions = services.transactions
    if transactions.is_loading:
        return _response(ErrorCode.coordinator_load_in_progress, request)
    matches: Callable[[str], bool] | None = None
    if request.transactional_id_pattern:
        try:
            matches = compile_expression(request.transactional_id_pattern).matches
        except InvalidExpression:
            return _response(ErrorCode.invalid_regular_expression, request)
    known = frozenset(_STATES[each] for each in request.state_filters if each in _STATES)
    if request.state_filters and not known:
        return _response(ErrorCode.none, request)
    asked = ListTransactions(
        known, frozenset(request.producer_id_filters), request.duration_filter, matches
    )
    found = tuple(
        ListedTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer.producer_id,
            transaction_state=each.state.label,
        )
        for led in transactions.all_loaded()
        for each in led.ask(asked)
        if may(
            services,
            context,
            DESCRIBE_TRANSACTIONAL_ID,
            each.transactional_id,
            is_audited=False,
        )
    )
    return _response(ErrorCode.none, request, found)


def _response(
    code: ErrorCode,
    request: ListTransactionsRequest,
    found: tuple[ListedTransaction, ...] = (),
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time=timedelta(0),
        error_code=code,
        unknown_state_filters=tuple(each for each in request.state_filters if each not in _STATES),
        transaction_states=found,
    )


HANDLER: Final = adapted(API, handle, TransactionServices, authorizes=(DESCRIBE_TRANSACTIONAL_ID,))
