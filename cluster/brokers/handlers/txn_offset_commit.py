"""TxnOffsetCommit (API key 28), versions 0-5.

Commits offsets as part of a transaction: they become visible when it is committed. The first one of
a transaction is accepted only if its coordinator knows that the group's partition of
`__consumer_offsets` belongs to it, or adds it (KIP-890).
v2 leader epochs; v3 flexible, group member (KIP-447); v4 TRANSACTION_ABORTABLE; v5 the partition is
added by this request.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.handlers.access import (
    READ_GROUP,
    READ_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    allowed_among,
    check,
)
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted, now_or_later
from cluster.brokers.handlers.services import TransactionServices
from cluster.brokers.transactions.check_errors import ClientAge, commit_error
from cluster.brokers.transactions.transaction_checks import TransactionCheck
from cluster.config.broker import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from cluster.coordinator.groups.requests import CommitReply, OffsetToCommit, TransactionalCommit
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.transactions.requests import ProducerIdentity
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API: Final = Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5)

_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS: Final = 5
_Codes = Mapping[tuple[str, int], ErrorCode]


def handle(
    request: TxnOffsetCommitRequest, context: RequestContext, services: TransactionServices
) -> TxnOffsetCommitResponse | NotYet:
    codes: dict[tuple[str, int], ErrorCode] = {}
    offsets: list[OffsetToCommit] = []
    allowed = allowed_among(services, context, READ_TOPIC, [each.name for each in request.topics])
    for topic in request.topics:
        known = services.metadata.topics.get(topic.name)
        for each in topic.partitions:
            place = topic.name, each.partition_index
            if topic.name not in allowed:
                codes[place] = ErrorCode.topic_authorization_failed
            elif known is None or each.partition_index not in known.partitions:
                codes[place] = ErrorCode.unknown_topic_or_partition
            else:
                offsets.append(
                    OffsetToCommit(
                        *place,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata or "",
                    )
                )
    places = [(each.topic, each.partition) for each in offsets]

    try:
        check(services, context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
        check(services, context, READ_GROUP, request.group_id)
        if not request.group_id:
            raise Refused(ErrorCode.invalid_group_id)
        led = services.groups.find(request.group_id)
    except Refused as refused:
        every = (
            (topic.name, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        )
        return _response(request, dict.fromkeys(every, refused.code))
    if not offsets:
        return _response(request, codes)
    commit = TransactionalCommit(
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        tuple(offsets),
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )

    def begin(respond: Callable[[TxnOffsetCommitResponse], None]) -> None:
        def on_reply(reply: CommitReply) -> None:
            errors = (each.error for each in reply.partitions)
            respond(_response(request, codes | dict(zip(places, errors, strict=True))))

        def on_checked(code: ErrorCode) -> None:
            try:
                if code is not ErrorCode.none:
                    raise Refused(code)
                # By now another broker may coordinate the group.
                services.groups.find(request.group_id).submit(commit, on_reply)
            except Refused as refused:
                respond(_response(request, codes | dict.fromkeys(places, refused.code)))

        _check_transaction(request, context, services, led, on_checked)

    return now_or_later(begin, context)


def _check_transaction(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    services: TransactionServices,
    led: LedShard[GroupShard],
    on_checked: Callable[[ErrorCode], None],
) -> None:
    """Have the coordinator of the transaction add the group's partition, or confirm it."""
    is_added = context.version >= _FIRST_THAT_ADDS
    partition = services.partitions.find(led.id)
    producers = None if partition is None else partition.log.producers
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    if producers is None:
        on_checked(ErrorCode.not_coordinator)
        return
    if producers.has_open_transaction(*producer):
        on_checked(ErrorCode.none)
        return

    def on_decided(code: ErrorCode) -> None:
        if code is ErrorCode.none:
            services.transaction_writers.note(
                request.producer_id, request.transactional_id, context.client_id, context.host
            )
        on_checked(code)

    if not is_added and not services.settings[TRANSACTION_PARTITION_VERIFICATION_ENABLE]:
        on_decided(ErrorCode.none)
        return
    age = ClientAge.BEFORE
    if context.version >= _FIRST_WITH_ABORTABLE:
        age = ClientAge.ADDS_BY_WRITING if is_added else ClientAge.KNOWS_ABORTABLE
    try:
        verification = producers.begin_verification(
            *producer, 0, services.clock.wall_ms(), is_added=is_added
        )
    except Refused as refused:
        on_checked(refused.code)
        return

    def on_codes(codes: Mapping[TopicPartition, ErrorCode]) -> None:
        code = commit_error(codes[led.id], age)
        # The first of several commits that waited has opened it, which ends the verification.
        is_open = verification.is_valid or producers.has_open_transaction(*producer)
        if code is ErrorCode.none and not is_open:
            code = commit_error(ErrorCode.transaction_abortable, age)
        on_decided(code)

    services.checks.check(
        TransactionCheck(request.transactional_id, producer, frozenset({led.id}), is_added),
        on_codes,
    )


def _response(request: TxnOffsetCommitRequest, codes: _Codes) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time=timedelta(0),
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes[topic.name, each.partition_index],
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


HANDLER: Final = adapted(
    API,
    handle,
    TransactionServices,
    authorizes=(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
)
