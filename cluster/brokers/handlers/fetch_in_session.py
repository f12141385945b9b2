"""Fetch requests that belong to a session (KIP-227): the changes, the reads and the answer.

Only partitions that have changed since they were last read are read, and only those with news are
in the answer. What was told is noted when the answer is encoded, as in Kafka: a throttled answer
without data tells nothing, so the next one tells it.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from cluster.brokers.fetching.session import (
    CachedPartition,
    FetchSession,
    next_epoch,
)
from cluster.brokers.handlers.access import READ_TOPIC
from cluster.brokers.handlers.fetch_reads import Result, denied, limits_of, nearest_to, read
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext
from cluster.brokers.handlers.services import DataServices
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.protocol.endpoints import NodeEndpoint
from cluster.protocol.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchTopic,
)

_FIRST_TOPIC_IDS: Final = 13
_NO_SESSION: Final = 0


class Ending:
    """What an answer means for its session. `finish` or, before it, `withheld` is called once."""

    def finish(self, topics: Sequence[FetchedTopic]) -> tuple[int, int]:
        """The answer leaves with these topics; returns its error code and session id. With an
        error it leaves without them.
        """
        raise NotImplementedError

    def withheld(self) -> "Ending | None":
        """The answer leaves without its data, because the client is throttled."""
        raise NotImplementedError


Answer = tuple[list[FetchedTopic], list[NodeEndpoint], Ending | None]


class Opening(Ending):
    """The answer to a full request that asks for a session."""

    def __init__(
        self, topics: Sequence[FetchTopic], context: RequestContext, services: DataServices
    ) -> None:
        self._topics = topics
        self._uses_topic_ids = context.version >= _FIRST_TOPIC_IDS
        self._services = services

    def finish(self, topics: Sequence[FetchedTopic]) -> tuple[int, int]:
        services = self._services
        session_id = services.fetch_sessions.open(
            self._topics, topics, services.loop.now_ms, uses_topic_ids=self._uses_topic_ids
        )
        return 0, session_id

    def withheld(self) -> Ending | None:
        return None


class _Fixed(Ending):
    """An answer without partitions."""

    def __init__(self, error_code: ErrorCode) -> None:
        self._error_code = int(error_code)

    def finish(self, _topics: Sequence[FetchedTopic]) -> tuple[int, int]:
        return self._error_code, _NO_SESSION

    def withheld(self) -> Ending:
        return self


class _Increment(Ending):
    """The answer to a request of a session; with `news` empty it changes nothing in the session."""

    def __init__(
        self,
        session: FetchSession,
        epoch: int,
        news: list[tuple[CachedPartition, FetchedPartition]],
    ) -> None:
        """`epoch` is that of the next request."""
        self._session = session
        self._epoch = epoch
        self._news = news

    def finish(self, _topics: Sequence[FetchedTopic]) -> tuple[int, int]:
        if self._session.epoch != self._epoch:  # another connection has used the session since
            return int(ErrorCode.invalid_fetch_session_epoch), self._session.id
        for cached, found in self._news:
            cached.on_told(found)
        return 0, self._session.id

    def withheld(self) -> Ending:
        for cached, _ in self._news:
            self._session.read_again(cached)
        return _Increment(self._session, self._epoch, [])


class _Reading:
    """One request of a session, also in the purgatory."""

    kind: ClassVar[str] = "Fetch"

    def __init__(
        self,
        request: FetchRequest,
        session: FetchSession,
        context: RequestContext,
        services: DataServices,
    ) -> None:
        self._request = request
        self._session = session
        self._epoch = session.epoch
        self._context = context
        self._services = services

    def try_complete(self) -> bool:
        answer = self.answer_if_enough()
        if answer is None:
            return False
        self._context.answer(answer)
        return True

    def expire(self) -> None:
        found, result = self._read()
        self._context.answer(self._answer(found, result))

    def answer_if_enough(self) -> Answer | None:
        """The answer, unless the request has to wait for more."""
        found, result = self._read()
        if result.is_enough or self._request.max_wait_ms <= 0 or not self._session.partitions:
            return self._answer(found, result)
        return None

    def _read(self) -> tuple[list[tuple[CachedPartition, FetchedPartition]], Result]:
        """Everything that the client is not told yet; what is no news is not read again."""
        session, context, services = self._session, self._context, self._services
        nearest = nearest_to(self._request, context, services) if self._request.rack_id else None
        result = Result(nearest)
        news: list[tuple[CachedPartition, FetchedPartition]] = []
        budget, min_bytes, is_committed = limits_of(self._request, context, services)
        counted = 0
        authorizer = services.authorizer
        for cached in session.to_read():
            topic = cached.topic
            if topic is None:
                topic = services.metadata.topic_name(cached.topic_id)
                if topic is not None:
                    services.fetch_sessions.name(cached, topic)
            if (
                authorizer is not None
                and topic is not None
                and not authorizer.allows(context.user, context.host, *READ_TOPIC, topic)
            ):
                news.append((cached, denied(cached.wanted)))
                result.is_enough = True
                continue
            found, held_back = read(
                topic,
                cached.topic_id,
                cached.wanted,
                is_committed,
                budget,
                result,
                context,
                services,
            )
            size_bytes = found.records_size_bytes
            budget -= size_bytes
            result.size_bytes += size_bytes
            counted += size_bytes + held_back
            if cached.is_news(found):
                news.append((cached, found))
            elif _is_read_up(cached, found):
                del session.unread[cached]
        if counted >= min_bytes:
            result.is_enough = True
        return news, result

    def _answer(
        self, news: list[tuple[CachedPartition, FetchedPartition]], result: Result
    ) -> Answer:
        topics: list[FetchedTopic] = []
        partitions: list[FetchedPartition] = []
        last: object = None
        for cached, found in news:
            if _is_read_up(cached, found):
                self._session.unread.pop(cached, None)
            topic = cached.topic if cached.topic_id is None else cached.topic_id
            if topic != last or not topics:
                last = topic
                partitions = []
                topics.append((cached.topic, cached.topic_id, partitions))
            partitions.append(found)
        endpoints = list(result.endpoints.values())
        return topics, endpoints, _Increment(self._session, self._epoch, news)


def _is_read_up(cached: CachedPartition, found: FetchedPartition) -> bool:
    """Whether nothing can be found beyond it before the partition changes."""
    return (
        found.error_code == 0
        and found.records_size_bytes == 0
        and found.diverging_epoch is None
        and found.preferred_read_replica < 0
        and cached.wanted.fetch_offset >= found.last_stable_offset
    )


def _refusal(code: ErrorCode, services: DataServices) -> Answer:
    if services.counters is not None:
        services.counters.on_error(ApiKey.FETCH, code)
    return [], [], _Fixed(code)


def fetch_in_session(
    request: FetchRequest, context: RequestContext, services: DataServices
) -> Answer | NotYet | None:
    """Answer the next request of a session, or wait. None if the session has ended with this
    request, because no partition is left in it: then the request is one without a session.
    """
    sessions = services.fetch_sessions
    session = sessions.find(request.session_id)
    if session is None:
        return _refusal(ErrorCode.fetch_session_id_not_found, services)
    if session.epoch != request.session_epoch:
        return _refusal(ErrorCode.invalid_fetch_session_epoch, services)
    if session.uses_topic_ids != (context.version >= _FIRST_TOPIC_IDS):
        return _refusal(ErrorCode.fetch_session_topic_id_error, services)
    if not sessions.change(session, request.topics, request.forgotten):
        sessions.close(session.id)
        return _refusal(ErrorCode.fetch_session_id_not_found, services)
    if not session.partitions:
        sessions.close(session.id)
        return None
    now_ms = services.loop.now_ms
    sessions.touch(session, now_ms)
    session.epoch = next_epoch(session.epoch)
    rules = 0 if services.authorizer is None else services.authorizer.rules_number
    session.see_as((request.isolation_level, request.rack_id, context.user, context.host, rules))
    reading = _Reading(request, session, context, services)
    answer = reading.answer_if_enough()
    if answer is not None:
        return answer
    parked = services.purgatory.park(reading, (session,), now_ms + request.max_wait_ms)
    context.channel.on_close = parked.drop
    return PARKED
