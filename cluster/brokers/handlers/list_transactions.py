"""ListTransactions (API key 66), versions 0-2 (KIP-664).

The transactional ids that this broker coordinates and the client may see.
v1 only transactions that are open for longer than some time (KIP-994); v2 only ids that match a
regular expression of RE2 (KIP-1152).
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Final

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.handlers.access import DESCRIBE_TRANSACTIONAL_ID, may
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.handlers.sliced_answer import gathered
from cluster.coordinator.groups.consumer.topic_expressions import (
    InvalidExpression,
    compile_expression,
)
from cluster.coordinator.transactions.requests import ListTransactions
from cluster.coordinator.transactions.shard import TransactionShard
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from cluster.protocol.messages.list_transactions import write_listed_transaction
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.LIST_TRANSACTIONS, 0, 2)

_STATES: Final = {each.label: each for each in TransactionState}


def handle(
    request: ListTransactionsRequest, context: RequestContext, services: TransactionServices
) -> ListTransactionsResponse | NotYet:
    """If there are many ids, the answer is built in slices."""
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
    found = _Rows(context.version)
    steps = _gather(transactions.all_loaded(), asked, found, context, services)
    return gathered(
        steps, lambda: _response(ErrorCode.none, request, found), context, services.slices
    )


class _Rows:
    """Transactional ids, already encoded: as objects they take ten times the memory."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._content = bytearray()
        self._count = 0

    def add(self, row: ListedTransaction) -> None:
        write_listed_transaction(self._content, row, self._version)
        self._count += 1

    def items(self) -> EncodedItems:
        return EncodedItems(self._count, self._content)


def _gather(
    shards: Iterable[LedShard[TransactionShard]],
    asked: ListTransactions,
    found: _Rows,
    context: RequestContext,
    services: TransactionServices,
) -> Iterator[None]:
    """Add the ids of all shards. One that is unloaded meanwhile has none any more."""
    for led in shards:
        for piece in led.ask(asked):
            for each in piece:
                name = each.transactional_id
                if may(services, context, DESCRIBE_TRANSACTIONAL_ID, name, is_audited=False):
                    found.add(
                        ListedTransaction(
                            transactional_id=name,
                            producer_id=each.producer.producer_id,
                            transaction_state=each.state.label,
                        )
                    )
            yield


def _response(
    code: ErrorCode, request: ListTransactionsRequest, found: _Rows | None = None
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time=timedelta(0),
        error_code=code,
        unknown_state_filters=tuple(each for each in request.state_filters if each not in _STATES),
        transaction_states=() if found is None else found.items(),
    )


HANDLER: Final = adapted(API, handle, TransactionServices, authorizes=(DESCRIBE_TRANSACTIONAL_ID,))
