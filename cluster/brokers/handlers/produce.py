"""Produce (API key 0), versions 3-13; advertised from 0 (KAFKA-18659).

Errors and acks=1 are answered immediately. An acks=all request waits (`commit_waits`) until the
high watermark has passed its batches, or until the timeout; meanwhile the connection's next Produce
request is handled. acks=0 has no answer; an error closes the connection. A batch that takes long to
check (compressed, or with very many records) is copied, checked on another thread and then
appended, followed by the batches behind it; the connection's next request waits for that.
The first batch of a transaction in a partition waits until the transaction's coordinator has
confirmed that the partition belongs to it, or has added it (KIP-890). Each partition accepts
exactly one batch, of magic 2.
v8 error messages and errors of single records (KIP-467); v9 flexible; v10 leader hints (KIP-951);
v11 TRANSACTION_ABORTABLE; v12 partitions are added to transactions by writing; v13 topic ids.
"""

import uuid
from functools import partial
from typing import Final, NamedTuple

from cluster.brokers.handlers.access import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, may
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.leader_hints import endpoints_of, leader_hint
from cluster.brokers.handlers.produce_transactions import (
    NotVerified,
    Verified,
    begins_transaction,
    check_begun,
    has_several_producers,
    note_writer,
    verification_of,
    verify,
)
from cluster.brokers.handlers.request import (
    APPENDED,
    NO_ANSWER,
    PARKED,
    Handler,
    NotYet,
    RequestContext,
)
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.connection import Outgoing
from cluster.brokers.replication.commit_waits import CommitWait, WaitingRequest
from cluster.brokers.replication.partition import ACKS_ALL, Partition
from cluster.config.broker import METRICS_TOPIC_CLIENT_PRODUCE
from cluster.log.producer_state import Verification
from cluster.model.errors import (
    ErrorCode,
    PeerError,
    RecordsRefused,
    Refused,
    StorageFailed,
)
from cluster.model.ids import Offset, TopicPartition
from cluster.model.topics import INTERNAL_TOPICS, METRICS_TOPIC
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.endpoints import NodeEndpoint
from cluster.protocol.produce_codec import (
    ProducedPartition,
    ProducedTopicResult,
    ProduceRequest,
    pack_produce_response,
    scan_produce_request,
)
from cluster.quotas.client_accounts import ClientAccounts
from cluster.records.checked_batch import IsLong
from cluster.records.produced import restamped, validate_produced
from cluster.runtime.long_work import Job

API: Final = Api(ApiKey.PRODUCE, 3, 13, advertised_min=0)

_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple
_ATTRIBUTES_LOW_BYTE: Final = 22
_TRANSACTIONAL_BIT: Final = 0x10
_CODEC_BITS: Final = 0x07
_ZSTD: Final = 4
_FIRST_WITH_ZSTD: Final = 7
_ADMIN_CLIENT_ID: Final = "__admin_client"
_WRITTEN_BY_BROKERS: Final = INTERNAL_TOPICS | {METRICS_TOPIC}
_HINTED: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)

_UNDECIDED: Final = ProducedPartition(-1, int(ErrorCode.unknown_server_error))
"""A placeholder for an outcome that is not known yet."""

_TopicResult = tuple[str | None, uuid.UUID | None, list[ProducedPartition]]
Answer = tuple[list[ProducedTopicResult], list[NodeEndpoint]]


class _DelayedProduce(WaitingRequest):
    """An acks=all request that waits for its replicas."""

    __slots__ = ("_answer", "_context", "_services")

    def __init__(self, context: RequestContext, services: DataServices, answer: Answer) -> None:
        self._context = context
        self._services = services
        self._answer = answer

    def on_failure(self, wait: CommitWait, code: ErrorCode) -> None:
        """Replace the result of the partition."""
        results, position = wait.place
        _fail(results, position, code, wait.partition, self._services.counters)
        if code in _HINTED:
            self._name_leader(wait.partition.id, results, position)

    def on_decided(self) -> None:
        self._context.answer(self._answer)

    def drop(self) -> None:
        """The connection is closed."""
        self._services.commit_waits.drop(self)

    def _name_leader(
        self, partition_id: TopicPartition, results: list[ProducedPartition], position: int
    ) -> None:
        """Add the current leader to the result, and that broker's endpoint to the answer."""
        hint = leader_hint(partition_id, self._services)
        if hint is not None:
            nodes = self._answer[1]
            results[position] = results[position]._replace(current_leader=hint)
            found = endpoints_of(hint[0], self._context, self._services).values()
            nodes += [node for node in found if node not in nodes]


def _fail(
    results: list[ProducedPartition],
    position: int,
    code: ErrorCode,
    partition: Partition,
    counters: BrokerCounters | None,
) -> None:
    """Replace the result of a batch that is appended and not committed."""
    results[position] = ProducedPartition(results[position].index, int(code))
    if counters is not None:
        counters.on_produce_refused(partition.id.topic, code)


def _await_commit(
    waiting: list[CommitWait],
    partition: Partition,
    last_offset: int,
    results: list[ProducedPartition],
    position: int,
    counters: BrokerCounters | None,
) -> None:
    """Add to `waiting` a batch that was just appended, unless its outcome is known."""
    required = Offset(last_offset + 1)
    code = partition.produce_outcome(required, partition.leader_epoch)
    if code is None:
        waiting.append(CommitWait(partition, required, (results, position)))
    elif code is not ErrorCode.none:
        _fail(results, position, code, partition, counters)


def _begin_to_wait(
    waiting: list[CommitWait],
    answer: Answer,
    deadline_ms: int,
    context: RequestContext,
    services: DataServices,
) -> None:
    delayed = _DelayedProduce(context, services, answer)
    services.commit_waits.add(delayed, waiting, deadline_ms)
    context.channel.on_close = delayed.drop
    topics = answer[0]
    if len(topics) > 1 or len(topics[0][2]) > 1:
        context.weight = sum(len(produced) for _, _, produced in topics)


def handle(
    request: ProduceRequest, context: RequestContext, services: DataServices
) -> Answer | NotYet:
    """Append every partition's batch and answer as `acks` demands."""
    acks = request.acks
    wall_ms = services.clock.wall_ns() // 1_000_000
    find = services.partitions.find
    is_usual = (
        -1 <= acks <= 1 and request.transactional_id is None and context.version >= _FIRST_WITH_ZSTD
    )
    results: list[_TopicResult] = []
    waiting: list[CommitWait] = []
    later: list[_Later] = []
    endpoints: dict[int, NodeEndpoint] = {}
    counters = services.counters
    may_write_all = services.authorizer is None and request.transactional_id is None
    denied = {} if may_write_all else _denied(request, context, services)
    begins = False
    for name, topic_id, partitions in request.topics:
        produced: list[ProducedPartition] = []
        topic = name if name is not None else services.metadata.topic_name(topic_id)
        results.append((name, topic_id, produced))
        if topic in denied:
            produced += _all_refused(topic, [index for index, _ in partitions], denied, counters)
            continue
        for index, records in partitions:
            if later:  # keeps the order of the request, which idempotent sequence numbers require
                _put_off(later, topic, topic_id, index, records, produced)
                continue
            try:
                partition = None if topic is None else find((topic, index))
                if partition is None or (topic_id is not None and partition.topic_id != topic_id):
                    partition = find_partition(services, topic, index, topic_id)
                if (
                    not is_usual
                    or topic in _WRITTEN_BY_BROKERS
                    or records is None
                    or len(records) <= _ATTRIBUTES_LOW_BYTE
                    or records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT
                ):
                    _check_request(request, records, context.version)
                    _check_writer(topic, context.client_id, services)
                    begins = check_begun(partition, records, context, services)  # type: ignore[arg-type]  # None was refused
                appended = partition.append(
                    records,  # type: ignore[arg-type]  # None was refused
                    acks,
                    wall_ms,  # type: ignore[arg-type]  # milliseconds, without the call of a type
                    services.loop.now_ms,
                    at_once=False,
                )
            except (IsLong, NotVerified):
                _put_off(later, topic, topic_id, index, records, produced)
                continue
            except (Refused, StorageFailed) as problem:
                produced.append(
                    _problem(topic, index, partition, problem, context, services, endpoints)
                )
                continue
            base_offset, last_offset, time_ms, start_offset, is_duplicate = appended
            outcome = (index, 0, base_offset, time_ms, start_offset, None, None, ())
            produced.append(_new(ProducedPartition, outcome))
            if not is_duplicate:
                services.events.on_appended(partition)
                if begins:
                    note_writer(records, request.transactional_id, context, services)  # type: ignore[arg-type]
            if acks == ACKS_ALL:
                position = len(produced) - 1
                _await_commit(waiting, partition, last_offset, produced, position, counters)
    if later:
        deadline_ms = services.loop.now_ms + max(0, request.timeout_ms)
        # The request's records are in a buffer that will be reused.
        asked = request._replace(topics=[])
        rest = _Rest(asked, context, services, results, later, waiting, endpoints, deadline_ms)
        return _begin_later(rest)
    if acks == 0:
        _close_on_error(results)
        return NO_ANSWER
    answer: Answer = (results, list(endpoints.values()))  # type: ignore[assignment]  # lists are sequences
    if not waiting:
        return answer
    deadline_ms = services.loop.now_ms + max(0, request.timeout_ms)
    _begin_to_wait(waiting, answer, deadline_ms, context, services)
    return APPENDED


class _Later(NamedTuple):
    """A batch of a request whose check, or that of its transaction, is postponed."""

    topic: str | None
    topic_id: uuid.UUID | None
    partition: int
    records: bytes
    results: list[ProducedPartition]
    position: int
    """The position of its outcome in the results."""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic or "", self.partition)


class _Rest(NamedTuple):
    """The rest of a request after its first batches were appended."""

    request: ProduceRequest
    context: RequestContext
    services: DataServices
    results: list[_TopicResult]
    later: list[_Later]
    waiting: list[CommitWait]
    endpoints: dict[int, NodeEndpoint]
    deadline_ms: int


def _put_off(
    later: list[_Later],
    topic: str | None,
    topic_id: uuid.UUID | None,
    index: int,
    records: memoryview | None,
    produced: list[ProducedPartition],
) -> None:
    later.append(_Later(topic, topic_id, index, bytes(records or b""), produced, len(produced)))
    produced.append(_UNDECIDED)


def _begin_later(rest: _Rest) -> NotYet:
    channel, later = rest.context.channel, rest.later
    channel.hold(sum(len(each.records) for each in later), is_worked_on=True)
    if not channel.is_open:
        return PARKED

    def on_verified(verified: Verified) -> None:
        if not later:
            return  # the client has disconnected
        channel.on_close = None
        rest.services.long_work.start(
            _append_later(rest, verified),
            channel.payer,
            lambda: channel.close("internal error while handling PRODUCE"),
        )

    if rest.request.acks != 0:
        # A closed connection's memory is not counted any more, and a coordinator may take seconds.
        channel.on_close = later.clear
    verify(
        {
            each.place: memoryview(each.records)
            for each in later
            if _may_write(each.topic, rest.context.client_id, rest.services)
        },
        rest.request.transactional_id,
        rest.context.version,
        rest.services,
        on_verified,
    )
    return PARKED


def _append_later(rest: _Rest, verified: Verified) -> Job:
    """Check and append the remaining batches, and answer; also if the client has disconnected."""
    request, context, services, results, later, waiting, endpoints, deadline_ms = rest
    acks, counters = request.acks, services.counters
    is_writer_noted = False

    def guard_of(partition: Partition, records: bytes) -> Verification | None:
        return verification_of(verified, partition, records, context.version, services)

    for topic, topic_id, index, records, produced, position in later:
        partition = None
        try:
            partition = find_partition(services, topic, index, topic_id)
            _check_request(request, memoryview(records), context.version)
            _check_writer(topic, context.client_id, services)
            partition.check_leader()
            verification = guard_of(partition, records)
            wall_ms = services.clock.wall_ms()
            limits = partition.log.limits
            try:
                checked = validate_produced(memoryview(records), limits, wall_ms, at_once=False)
            except IsLong:
                checked = yield partial(validate_produced, memoryview(records), limits, wall_ms)
                partition = find_partition(services, topic, index, topic_id)
                wall_ms = services.clock.wall_ms()
                checked = restamped(checked, wall_ms)
                verification = guard_of(partition, records)
            begins = not is_writer_noted and (
                verification is not None or begins_transaction(partition, memoryview(records))
            )
            appended = partition.append(
                checked.records,
                acks,
                wall_ms,
                services.loop.now_ms,
                produced=checked,
                verification=verification,
            )
        except (Refused, StorageFailed) as problem:
            produced[position] = _problem(
                topic, index, partition, problem, context, services, endpoints
            )
            continue
        produced[position] = ProducedPartition(
            index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
        )
        if not appended.is_duplicate:
            services.events.on_appended(partition)
            if begins:
                note_writer(records, request.transactional_id, context, services)
                is_writer_noted = True
        if acks == ACKS_ALL:
            last_offset = appended.last_offset
            _await_commit(waiting, partition, last_offset, produced, position, counters)
    if acks == 0:
        try:
            _close_on_error(results)
        except PeerError as error:
            context.channel.end(str(error))
        else:
            context.answer(NO_ANSWER)
        return
    answer: Answer = (results, list(endpoints.values()))  # type: ignore[assignment]  # lists are sequences
    if not waiting or not context.channel.is_open:
        context.answer(answer)
        return
    context.channel.let_go()
    _begin_to_wait(waiting, answer, deadline_ms, context, services)
    context.answer(APPENDED)
    for wait in waiting:  # the first batches may have been committed meanwhile
        services.commit_waits.check(wait.partition.id)


def _denied(
    request: ProduceRequest, context: RequestContext, services: DataServices
) -> dict[str | None, int]:
    """The topics that the client may not write to in this request, with their error codes."""
    transaction = request.transactional_id
    if transaction is not None and not may(services, context, WRITE_TRANSACTIONAL_ID, transaction):
        code = ErrorCode.transactional_id_authorization_failed
        return dict.fromkeys(_names(request, services), int(code))
    if transaction is not None and has_several_producers(request):
        code = ErrorCode.invalid_producer_id_mapping
        return dict.fromkeys(_names(request, services), int(code))
    if services.authorizer is None:
        return {}
    return {
        name: int(ErrorCode.topic_authorization_failed)
        for name in _names(request, services)
        if name is not None and not may(services, context, WRITE_TOPIC, name)
    }


def _names(request: ProduceRequest, services: DataServices) -> set[str | None]:
    metadata = services.metadata
    return {
        name if name is not None else metadata.topic_name(topic_id)
        for name, topic_id, _ in request.topics
    }


def _all_refused(
    topic: str | None,
    indexes: list[int],
    codes: dict[str | None, int],
    counters: BrokerCounters | None,
) -> list[ProducedPartition]:
    if counters is not None:
        for _ in indexes:
            counters.on_produce_refused(topic, codes[topic])
    return [ProducedPartition(index, codes[topic]) for index in indexes]


def _problem(
    topic: str | None,
    index: int,
    partition: Partition | None,
    problem: Refused | StorageFailed,
    context: RequestContext,
    services: DataServices,
    endpoints: dict[int, NodeEndpoint],
) -> ProducedPartition:
    if isinstance(problem, StorageFailed):
        return _on_failed_disk(topic, index, partition, problem, services)
    return _refusal(index, problem, topic, context, services, endpoints)


def _on_failed_disk(
    topic: str | None,
    index: int,
    partition: Partition | None,
    failure: StorageFailed,
    services: DataServices,
) -> ProducedPartition:
    if partition is not None:
        services.events.on_appended(partition)  # if only the sync failed, it is appended
        services.partitions.note_failure(partition.id, failure)
    if services.counters is not None:
        services.counters.on_produce_refused(topic, ErrorCode.kafka_storage_error)
    return ProducedPartition(index, int(ErrorCode.kafka_storage_error), error_message=str(failure))


def _check_request(request: ProduceRequest, records: memoryview | None, version: int) -> None:
    if not -1 <= request.acks <= 1:
        raise Refused(ErrorCode.invalid_required_acks, f"acks={request.acks}")
    if records is None or len(records) == 0:
        raise Refused(ErrorCode.invalid_record, "the partition has no record batch in the request")
    attributes = records[_ATTRIBUTES_LOW_BYTE] if len(records) > _ATTRIBUTES_LOW_BYTE else 0
    if request.transactional_id is None and attributes & _TRANSACTIONAL_BIT:
        raise Refused(
            ErrorCode.transactional_id_authorization_failed, "the request has no transactional id"
        )
    if version < _FIRST_WITH_ZSTD and attributes & _CODEC_BITS == _ZSTD:
        # Neither a client this old nor a consumer of its age knows zstd (KIP-110).
        raise Refused(
            ErrorCode.unsupported_compression_type,
            "Produce requests with version < 7 are not allowed to use ZStandard compression",
        )


def _check_writer(topic: str | None, client_id: str | None, services: DataServices) -> None:
    """Refuse clients that may not write to internal topics: only brokers and tools may (Kafka:
    `handleProduceRequest`). Only brokers, which append without a request, write the metrics topic.
    """
    if topic in INTERNAL_TOPICS and client_id != _ADMIN_CLIENT_ID:
        raise Refused(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {topic}")
    if topic == METRICS_TOPIC and not services.settings[METRICS_TOPIC_CLIENT_PRODUCE]:
        raise Refused(
            ErrorCode.invalid_topic_exception,
            f"Only brokers append to {topic}, unless {METRICS_TOPIC_CLIENT_PRODUCE.name}=true",
        )


def _may_write(topic: str | None, client_id: str | None, services: DataServices) -> bool:
    try:
        _check_writer(topic, client_id, services)
    except Refused:
        return False
    return True


def _refusal(
    index: int,
    refused: Refused,
    topic: str | None,
    context: RequestContext,
    services: DataServices,
    endpoints: dict[int, NodeEndpoint],
) -> ProducedPartition:
    if services.counters is not None:
        services.counters.on_produce_refused(topic, refused.code)
    hint = None
    if refused.code in _HINTED and topic is not None:
        hint = leader_hint(TopicPartition(topic, index), services)
        if hint is not None:
            endpoints.update(endpoints_of(hint[0], context, services))
    return ProducedPartition(
        index,
        int(refused.code),
        error_message=refused.detail or None,
        current_leader=hint,
        record_errors=refused.record_errors if isinstance(refused, RecordsRefused) else (),
    )


def _close_on_error(results: list[_TopicResult]) -> None:
    """Close the connection on an error: with acks=0 the producer cannot be told otherwise
    (as in Kafka).
    """
    for name, _, produced in results:
        for partition in produced:
            if partition.error_code != 0:
                raise PeerError(
                    f"produce with acks=0 to {name}-{partition.index} failed:"
                    f" {ErrorCode(partition.error_code).name}"
                )


def _encode(version: int, correlation_id: int, answer: Answer, throttle_ms: int) -> list[Outgoing]:
    results, endpoints = answer
    return [pack_produce_response(version, correlation_id, results, throttle_ms, endpoints)]


HANDLER: Final = Handler(
    API,
    handle,
    DataServices,
    scan_produce_request,
    _encode,
    authorizes=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC),
    charge=ClientAccounts.on_produced,
    carries_records=True,
)
