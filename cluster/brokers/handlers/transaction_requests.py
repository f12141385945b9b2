"""Shared by the handlers of transactions."""

from collections.abc import Callable
from typing import Final

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.handlers.services import TransactionServices
from cluster.coordinator.shards.requests import Request
from cluster.coordinator.transactions.requests import ProducerReply
from cluster.coordinator.transactions.shard import TransactionShard
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID

FIRST_WITH_FENCED: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn with PRODUCER_FENCED; earlier ones
know INVALID_PRODUCER_EPOCH."""


def with_producer_id(
    led: LedShard[TransactionShard],
    request_with: Callable[[int], Request[ProducerReply]],
    on_reply: Callable[[ProducerReply], None],
    services: TransactionServices,
) -> None:
    """Submit a request, again with a new producer id if it needs one."""

    def on_first(reply: ProducerReply) -> None:
        if reply.needs_producer_id:
            services.producer_ids.next_id(on_id)
        else:
            on_reply(reply)

    def on_id(producer_id: int | None) -> None:
        if producer_id is None:
            on_reply(ProducerReply(ErrorCode.coordinator_not_available))
        else:
            led.submit(request_with(producer_id), on_reply)

    led.submit(request_with(NO_PRODUCER_ID), on_first)


def fenced_as(code: ErrorCode, version: int) -> ErrorCode:
    """The code as clients of a version know it."""
    if code is ErrorCode.producer_fenced and version < FIRST_WITH_FENCED:
        return ErrorCode.invalid_producer_epoch
    return code
