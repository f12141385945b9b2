"""Fetch (API key 1), versions 4-18.

The answer is sent immediately if there are enough bytes, if a limit is exceeded, or if any
partition has an error. Otherwise the request is parked until the bytes are there, the leader
changes, or the maximal wait time is over. Records are sent as file regions.
read_committed reads up to the last stable offset and lists aborted transactions.
v7 sessions (KIP-227), see `fetch_in_session`; v9 leader epoch fencing (KIP-320); v11 followers
serve consumers, too, and leaders name a replica in the client's rack (KIP-392); v12 flexible,
diverging epochs; v13 topic ids; v16 leader hints; v18 a replica's high watermark as a tagged field
(KIP-1166), ignored because only KRaft's quorum uses it.
"""

import uuid
from typing import ClassVar, Final

from cluster.brokers.fetching.session import FINAL_EPOCH, INITIAL_EPOCH
from cluster.brokers.handlers.access import READ_TOPIC
from cluster.brokers.handlers.fetch_in_session import Answer, Ending, Opening, fetch_in_session
from cluster.brokers.handlers.fetch_reads import read_all
from cluster.brokers.handlers.request import PARKED, Handler, NotYet, RequestContext
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.connection import Outgoing
from cluster.model.ids import TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.fetch_codec import (
    FetchRequest,
    fetch_response_size,
    pack_fetch_response,
    scan_fetch_request,
)
from cluster.protocol.fetch_request import each_once
from cluster.quotas.client_accounts import ClientAccounts

API: Final = Api(ApiKey.FETCH, 4, 18)


class _DelayedFetch:
    """A full Fetch request in the purgatory."""

    kind: ClassVar[str] = "Fetch"

    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext,
        services: DataServices,
        ending: Ending | None,
    ) -> None:
        self._request = request
        self._context = context
        self._services = services
        self._ending = ending

    def try_complete(self) -> bool:
        result = read_all(self._request, self._context, self._services)
        if not result.is_enough:
            return False
        self._context.answer((result.topics, list(result.endpoints.values()), self._ending))
        return True

    def expire(self) -> None:
        result = read_all(self._request, self._context, self._services)
        self._context.answer((result.topics, list(result.endpoints.values()), self._ending))


def handle(
    request: FetchRequest, context: RequestContext, services: DataServices
) -> Answer | NotYet:
    """Read the available records; wait for more if they are too few."""
    topics = request.topics
    is_session_wanted = False
    session_epoch = request.session_epoch
    if session_epoch != FINAL_EPOCH or request.session_id:
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            services.fetch_sessions.close(request.session_id)
            is_session_wanted = session_epoch == INITIAL_EPOCH
        else:
            answer = fetch_in_session(request, context, services)
            if answer is not None:
                return answer
    if len(topics) > 1 or (topics and len(topics[0].partitions) > 1):
        request = request._replace(topics=each_once(topics))
    ending = Opening(request.topics, context, services) if is_session_wanted else None
    result = read_all(request, context, services)
    if result.is_enough or request.max_wait_ms <= 0 or not request.topics:
        return result.topics, list(result.endpoints.values()), ending
    keys = [
        TopicPartition(name, partition.index)
        for topic in request.topics
        if (name := _topic_name(topic.name, topic.topic_id, services)) is not None
        for partition in topic.partitions
    ]
    parked = services.purgatory.park(
        _DelayedFetch(request, context, services, ending),
        keys,
        services.loop.now_ms + request.max_wait_ms,
    )
    context.channel.on_close = parked.drop
    return PARKED


def _topic_name(name: str | None, topic_id: uuid.UUID | None, services: DataServices) -> str | None:
    return name if name is not None else services.metadata.topic_name(topic_id)


def _encode(
    version: int, correlation_id: int, answer: Answer, throttle_ms: int
) -> "list[Outgoing]":
    topics, endpoints, ending = answer
    packed: list[Outgoing]
    if ending is None:
        packed = pack_fetch_response(  # type: ignore[assignment]  # bytes and slices
            version, correlation_id, topics, throttle_time_ms=throttle_ms, node_endpoints=endpoints
        )
        return packed
    error_code, session_id = ending.finish(topics)
    packed = pack_fetch_response(  # type: ignore[assignment]  # bytes and slices
        version,
        correlation_id,
        () if error_code else topics,
        throttle_time_ms=throttle_ms,
        error_code=error_code,
        session_id=session_id,
        node_endpoints=endpoints,
    )
    return packed


def _size_bytes(version: int, answer: Answer) -> int:
    topics, endpoints, _ = answer
    return fetch_response_size(version, topics, endpoints)


def _without_data(answer: Answer) -> Answer:
    ending = answer[2]
    return [], [], None if ending is None else ending.withheld()


HANDLER: Final = Handler(
    API,
    handle,
    DataServices,
    scan_fetch_request,
    _encode,
    authorizes=(READ_TOPIC,),
    charge=ClientAccounts.on_fetched,
    measure=_size_bytes,
    without_data=_without_data,
    note_sent=BrokerCounters.on_fetched,
)
