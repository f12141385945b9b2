"""Metadata (API key 3), versions 0-13.

Answers from the broker's metadata cache, once the controller has sent the cluster's state and every
leader in the answer is known to be alive (see `peer_liveness`). Encoded answers are cached until
the cluster changes, since load-test clients send many Metadata requests. If a missing topic may be
created, the controller is asked to create it and the answer is LEADER_NOT_AVAILABLE, which clients
retry.
v1 null stands for all topics; v4 allow_auto_topic_creation; v6 LISTENER_NOT_FOUND, before it
LEADER_NOT_AVAILABLE; v8 authorized operations; v9 flexible; v12 topics by id; v13 top-level error.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Final

from cluster.brokers.handlers.access import (
    CREATE_ON_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    allowed_among,
    may,
)
from cluster.brokers.handlers.authorized_operations import (
    NOT_REQUESTED,
    authorized_operations,
    cluster_operations,
)
from cluster.brokers.handlers.request import PARKED, Handler, NotYet, RequestContext
from cluster.brokers.handlers.services import DataServices, Services
from cluster.brokers.membership.peer_liveness import ELECTION_WAIT_MS, PING_TIMEOUT_MS, Tickets
from cluster.brokers.membership.peer_pings import LIVENESS
from cluster.brokers.network.connection import Outgoing
from cluster.config.broker import AUTO_CREATE_TOPICS_ENABLE
from cluster.model.acls import ResourceType
from cluster.model.cluster import BrokerRegistration, PartitionState, TopicState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId
from cluster.model.topics import INTERNAL_TOPICS, check_topic_name
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import Api, ApiKey, is_flexible
from cluster.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from cluster.protocol.messages.metadata import write_metadata_response_partition
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.METADATA, 0, 13)

_CORRELATION: Final = struct.Struct(">i")
_THROTTLE_TIME: Final = struct.Struct(">i")
_FIRST_THROTTLE_TIME: Final = 3
_FIRST_LISTENER_NOT_FOUND: Final = 6
_ASKED_TOPIC_BYTES: Final = 400
"""The estimated size of a requested topic in the key of a cached answer."""
_PARTITIONS_AT_ONCE: Final = 500
"""More partitions are encoded in slices: 10,000 take about 40 ms."""
_PARTITIONS_PER_STEP: Final = 50


class _DelayedMetadata:
    """A request in the purgatory: the cluster's state is not known yet, or a leader has not
    answered a ping, or a dead leader has no successor yet.
    """

    kind: ClassVar[str] = "Metadata"

    def __init__(
        self,
        request: MetadataRequest,
        context: RequestContext,
        services: DataServices,
        tickets: Tickets,
    ) -> None:
        self._request = request
        self._context = context
        self._services = services
        self._tickets = tickets

    def try_complete(self) -> bool:
        services = self._services
        leaders = _leaders(self._request, self._context, services)
        if _must_wait(leaders, self._tickets, services):
            return False
        self._answer()
        return True

    def expire(self) -> None:
        if self._services.metadata.brokers:
            self._answer()
        else:
            _park(self._request, self._context, self._services, self._tickets)

    def _answer(self) -> None:
        answer = _answer(self._request, self._context, self._services)
        if not isinstance(answer, NotYet):
            self._context.answer(answer)


class _SpacedMetadata:
    """A request in the purgatory, delayed because the previous answer listed a departed broker."""

    kind: ClassVar[str] = "Metadata"

    def __init__(
        self, request: MetadataRequest, context: RequestContext, services: DataServices
    ) -> None:
        self._request = request
        self._context = context
        self._services = services

    def try_complete(self) -> bool:
        return False

    def expire(self) -> None:
        answer = _handle_now(self._request, self._context, self._services)
        if not isinstance(answer, NotYet):
            self._context.answer(answer)


def handle(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> bytes | NotYet:
    """The frame of the answer, or PARKED until every leader in it has shown that it is alive."""
    now_ms = services.loop.now_ms
    due_ms = services.liveness.next_answer_ms(context.channel.peer, now_ms)
    if request.topics and due_ms > now_ms:
        delayed = _SpacedMetadata(request, context, services)
        context.channel.on_close = services.purgatory.park(delayed, [], due_ms).drop
        return PARKED
    return _handle_now(request, context, services)


def _handle_now(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> bytes | NotYet:
    remembered = services.metadata.encoded_answers.get(_what_is_asked(request, context, services))
    leaders = _leaders(request, context, services) if remembered is None else remembered[1]
    tickets = services.liveness.inquire(leaders)
    if _must_wait(leaders, tickets, services):
        _park(request, context, services, tickets)
        return PARKED
    return _answer(request, context, services)


def _must_wait(leaders: Collection[BrokerId], tickets: Tickets, services: DataServices) -> bool:
    # An answer without brokers makes librdkafka (2.11 and later) forget every broker for good.
    return not services.metadata.brokers or services.liveness.must_wait(
        leaders, tickets, services.loop.now_ms
    )


def _park(
    request: MetadataRequest, context: RequestContext, services: DataServices, tickets: Tickets
) -> None:
    parked = services.purgatory.park(
        _DelayedMetadata(request, context, services, tickets),
        [LIVENESS],
        services.loop.now_ms + PING_TIMEOUT_MS + ELECTION_WAIT_MS,
    )
    context.channel.on_close = parked.drop


def _answer(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> bytes | NotYet:
    """The frame of the current answer; if it has many partitions, it is encoded in slices."""
    if services.liveness.is_calm(services.loop.now_ms):
        found = services.metadata.encoded_answers.get(_what_is_asked(request, context, services))
        if found is not None:
            return _addressed(found[0], context)
    topics = _asked_topics(request, context, services)
    if sum(len(topic.partitions) for topic in topics) > _PARTITIONS_AT_ONCE:
        services.slices.start(
            _answer_later(request, context, services, services.metadata.state_number, topics)
        )
        return PARKED
    return _addressed(_encoded(request, context, services, {}), context)


def _encoded(
    request: MetadataRequest,
    context: RequestContext,
    services: DataServices,
    prepared: Mapping[str, EncodedItems],
    *,
    may_hold: bool = True,
) -> bytes:
    """The frame of the answer, for any correlation id; cached if it is expected to stay valid."""
    response = describe_cluster_topics(request, context, services, prepared)
    frame = encode_response(ApiKey.METADATA, context.version, 0, response)
    is_calm = may_hold and services.liveness.is_calm(services.loop.now_ms)
    # Building an answer with errors had side effects, or the answer will soon be outdated.
    if is_calm and all(topic.error_code is ErrorCode.none for topic in response.topics):
        services.metadata.encoded_answers.put(
            _what_is_asked(request, context, services),
            (frame, _leaders(request, context, services)),
            len(frame) + _ASKED_TOPIC_BYTES * len(request.topics or ()),
        )
    return frame


def _answer_later(
    request: MetadataRequest,
    context: RequestContext,
    services: DataServices,
    state_number: int,
    topics: list[TopicState],
) -> Iterator[None]:
    """Encode the partitions step by step, then the answer.

    Each partition is encoded with its state at that step. The answer is not cached if the cluster's
    state or a broker's liveness has changed meanwhile.
    """
    was_calm = services.liveness.is_calm(services.loop.now_ms)
    prepared: dict[str, EncodedItems] = {}
    written = 0
    for topic in topics:
        content = bytearray()
        live = live_brokers(services)
        numbered = sorted(topic.partitions.items())
        for number, state in numbered:
            partition = _partition(topic, number, state, live, context, services)
            write_metadata_response_partition(content, partition, context.version)
            written += 1
            if written % _PARTITIONS_PER_STEP == 0:
                yield
        prepared[topic.name] = EncodedItems(len(numbered), content)
    may_hold = was_calm and services.metadata.state_number == state_number
    frame = _encoded(request, context, services, prepared, may_hold=may_hold)
    context.answer(_addressed(frame, context))


def _what_is_asked(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> object:
    topics, authorizer = request.topics, services.authorizer
    return (
        context.version,
        context.listener,
        request.allow_auto_topic_creation,
        request.include_cluster_authorized_operations,
        request.include_topic_authorized_operations,
        None if topics is None else tuple((topic.name, topic.topic_id) for topic in topics),
        # The rules decide what a client may see.
        None if authorizer is None else (context.user, context.host, authorizer.rules_number),
    )


def _addressed(frame: bytes, context: RequestContext) -> bytes:
    return frame[:4] + _CORRELATION.pack(context.correlation_id) + frame[8:]


def _asked_topics(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> list[TopicState]:
    """The requested topics that exist and that the client may describe, each once."""
    metadata = services.metadata
    if request.topics is None:
        seen = allowed_among(services, context, DESCRIBE_TOPIC, metadata.topics, is_audited=False)
        return [topic for name, topic in metadata.topics.items() if name in seen]
    names = {
        metadata.topic_name(asked.topic_id) if _is_asked_by_id(asked) else asked.name
        for asked in request.topics
    }
    return [
        metadata.topics[name]
        for name in names
        if name in metadata.topics
        and may(services, context, DESCRIBE_TOPIC, name, is_audited=False)
    ]


def _leaders(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> frozenset[BrokerId]:
    """The leaders of the requested topics' partitions."""
    return frozenset(
        state.leader
        for topic in _asked_topics(request, context, services)
        for state in topic.partitions.values()
    )


def live_brokers(services: Services) -> set[BrokerId]:
    """The registered brokers, without those whose process has ended."""
    now_ms = services.loop.now_ms
    return {b for b in services.metadata.brokers if not services.liveness.is_lost(b, now_ms)}


def describe_cluster_topics(
    request: MetadataRequest,
    context: RequestContext,
    services: DataServices,
    prepared: Mapping[str, EncodedItems],
) -> MetadataResponse:
    """Brokers of the client's listener, the controller, and the requested topics.

    `prepared` has the already encoded partitions by topic, for topics with many partitions.
    """
    metadata = services.metadata
    if request.topics is None:
        topics = [
            _known_topic(topic, request, context, services, prepared)
            for topic in _asked_topics(request, context, services)
        ]
    else:
        # A repeated topic is answered once, as in Kafka: clients index the answer by name.
        # An id takes precedence over the name beside it, so one id with several names is one topic.
        once = {
            asked.topic_id if _is_asked_by_id(asked) else asked.name: asked
            for asked in request.topics
        }
        topics = [
            _asked_topic(asked, request, context, services, prepared) for asked in once.values()
        ]
        _create_missing(topics, request, context, services)
    return MetadataResponse(
        throttle_time=timedelta(0),
        brokers=tuple(
            MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in _listed_brokers(request, context, services)
            if (endpoint := broker.endpoint(context.listener)) is not None
        ),
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=(
            cluster_operations(services, context)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
        error_code=ErrorCode.none,
    )


def _listed_brokers(
    request: MetadataRequest, context: RequestContext, services: DataServices
) -> Iterable[BrokerRegistration]:
    """The live brokers; for a request that lists topics, also recently departed brokers, once."""
    live = services.metadata.brokers.values()
    if not request.topics:
        return live
    peer = context.channel.peer
    return [*live, *services.liveness.departed_for(peer, services.loop.now_ms)]


def _asked_topic(
    asked: MetadataRequestTopic,
    request: MetadataRequest,
    context: RequestContext,
    services: DataServices,
    prepared: Mapping[str, EncodedItems],
) -> MetadataResponseTopic:
    name = asked.name
    if name is None or _is_asked_by_id(asked):
        name = services.metadata.topic_name(asked.topic_id)
        if name is None:
            return _missing(None, asked, ErrorCode.unknown_topic_id)
        if not may(services, context, DESCRIBE_TOPIC, name):
            return _missing(None, asked, ErrorCode.topic_authorization_failed)
    elif not may(services, context, DESCRIBE_TOPIC, name):
        # The answer does not reveal whether the topic exists.
        return replace(
            _missing(name, asked, ErrorCode.topic_authorization_failed), is_internal=False
        )
    topic = services.metadata.topics.get(name)
    if topic is not None:
        return _known_topic(topic, request, context, services, prepared)
    try:
        check_topic_name(name)
    except Refused as refused:
        return _missing(name, asked, refused.code)
    may_create = request.allow_auto_topic_creation and services.settings[AUTO_CREATE_TOPICS_ENABLE]
    if not may_create:
        return _missing(name, asked, ErrorCode.unknown_topic_or_partition)
    if not may(services, context, CREATE_ON_CLUSTER, is_audited=False) and not may(
        services, context, CREATE_TOPIC, name
    ):
        return _missing(name, asked, ErrorCode.topic_authorization_failed)
    return _missing(name, asked, ErrorCode.leader_not_available)


def _is_asked_by_id(asked: MetadataRequestTopic) -> bool:
    """Whether the id takes precedence: from version 12 on, Kafka's Java client sends an empty name
    rather than null with an id.
    """
    return asked.topic_id is not None or asked.name is None


def _create_missing(
    topics: list[MetadataResponseTopic],
    request: MetadataRequest,
    context: RequestContext,
    services: DataServices,
) -> None:
    missing = [
        topic.name
        for topic in topics
        if topic.error_code is ErrorCode.leader_not_available
        and topic.name is not None
        and topic.name not in services.metadata.topics
    ]
    if missing and request.allow_auto_topic_creation:
        services.controller_client.request_topic_creation(missing, context.accounts.client)


def _known_topic(
    topic: TopicState,
    request: MetadataRequest,
    context: RequestContext,
    services: DataServices,
    prepared: Mapping[str, EncodedItems],
) -> MetadataResponseTopic:
    partitions: tuple[MetadataResponsePartition, ...] | EncodedItems | None
    partitions = prepared.get(topic.name)
    if partitions is None:
        live = live_brokers(services)
        partitions = tuple(
            _partition(topic, number, state, live, context, services)
            for number, state in sorted(topic.partitions.items())
        )
    operations = NOT_REQUESTED
    if request.include_topic_authorized_operations:
        operations = authorized_operations(services, context, ResourceType.TOPIC, topic.name)
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(
    topic: TopicState,
    number: int,
    state: PartitionState,
    live: Collection[BrokerId],
    context: RequestContext,
    services: DataServices,
) -> MetadataResponsePartition:
    error = ErrorCode.none
    if not state.has_leader or state.leader not in live:
        error = ErrorCode.leader_not_available
    elif services.metadata.endpoint(state.leader, context.listener) is None:
        error = (
            ErrorCode.listener_not_found
            if context.version >= _FIRST_LISTENER_NOT_FOUND
            else ErrorCode.leader_not_available
        )
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=state.leader if error is ErrorCode.none else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=offline_replicas(topic, number, state, live, services),
    )


def offline_replicas(
    topic: TopicState,
    number: int,
    state: PartitionState,
    live: Collection[BrokerId],
    services: Services,
) -> tuple[BrokerId, ...]:
    """The replicas of a partition that are on dead brokers or in failed log directories."""
    offline = services.metadata.offline_replicas(topic.topic_id, number)
    return tuple(broker for broker in state.replicas if broker not in live or broker in offline)


def _missing(
    name: str | None, asked: MetadataRequestTopic, code: ErrorCode
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=asked.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
    )


def _decode(version: int, frame: memoryview, position: int) -> MetadataRequest:
    request: MetadataRequest = decode_request(ApiKey.METADATA, version, frame, position)
    return request


def _encode(version: int, _correlation_id: int, frame: bytes, throttle_ms: int) -> list[Outgoing]:
    if throttle_ms == 0 or version < _FIRST_THROTTLE_TIME:
        return [frame]
    # The throttle time follows size, correlation id and, in flexible versions, the tags.
    position = 9 if is_flexible(ApiKey.METADATA, version) else 8
    return [frame[:position] + _THROTTLE_TIME.pack(throttle_ms) + frame[position + 4 :]]


HANDLER: Final = Handler(
    API,
    handle,
    DataServices,
    _decode,
    _encode,
    authorizes=(DESCRIBE_TOPIC, CREATE_ON_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
)
