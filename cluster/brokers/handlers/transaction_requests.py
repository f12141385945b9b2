"""Shared by the handlers of transactions."""

from collections.abc import Callable
from typing import Final

from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import TransactionServices
from cluster.coordinator.shards.requests import Request
from cluster.coordinator.transactions.requests import ClientName, ProducerReply
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import NO_PRODUCER_ID
from cluster.model.kept_names import kept_name

FIRST_WITH_FENCED: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn with PRODUCER_FENCED; earlier ones
know INVALID_PRODUCER_EPOCH."""

OnReply = Callable[[ProducerReply], None]
"""Named here because a function in a function evaluates its annotations at each call."""


def with_producer_id(
    transactional_id: str,
    request_with: Callable[[int], Request[ProducerReply]],
    on_reply: OnReply,
    services: TransactionServices,
) -> None:
    """Submit a request, again with a new producer id if it needs one: by then another broker may
    coordinate the transactional id. `on_reply` is called once, perhaps at once."""

    def submit(producer_id: int, on_answer: OnReply) -> None:
        try:
            led = services.transactions.find(transactional_id)
        except Refused as refused:
            on_reply(ProducerReply(refused.code))
        else:
            led.submit(request_with(producer_id), on_answer)

    def on_first(reply: ProducerReply) -> None:
        if reply.needs_producer_id:
            services.producer_ids.next_id(on_id)
        else:
            on_reply(reply)

    def on_id(producer_id: int | None) -> None:
        if producer_id is None:
            on_reply(ProducerReply(ErrorCode.coordinator_not_available))
        else:
            submit(producer_id, on_reply)

    submit(NO_PRODUCER_ID, on_first)


def client_of(context: RequestContext) -> ClientName:
    """The names of the client that sent the request, as histories have them."""
    return ClientName(kept_name(context.client_id or ""), context.host)


def fenced_as(code: ErrorCode, version: int) -> ErrorCode:
    """The code as clients of a version know it."""
    if code is ErrorCode.producer_fenced and version < FIRST_WITH_FENCED:
        return ErrorCode.invalid_producer_epoch
    return code
