"""The types that handlers work with: a request's context, its answer, a row of the dispatch table.

Each handler names the record of the broker's services that it uses (`services`).
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

from cluster.brokers.handlers.errors_in_answers import errors_in
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.request_times import RequestKind
from cluster.brokers.network.connection import Connection, Outgoing, PendingAnswer
from cluster.coordinator.controller.topic_plans import Admit
from cluster.model.acls import Right
from cluster.model.clocks import MonotonicMs
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import Api
from cluster.quotas.account import Delay
from cluster.quotas.client_accounts import Charge, ClientAccounts
from cluster.quotas.mutation_quota import MutationQuota


class NotYet(enum.Enum):
    """The result of `handle` if there is no answer yet, or never."""

    PARKED = "the answer comes later through RequestContext.answer"
    APPENDED = "so does it, and the connection's next produce request need not wait for it"
    NO_ANSWER = "the client expects none (acks=0)"


PARKED: Final = NotYet.PARKED
APPENDED: Final = NotYet.APPENDED
NO_ANSWER: Final = NotYet.NO_ANSWER


class Throttled(NamedTuple):
    """A delay that began before the answer."""

    delay: Delay
    since_ms: MonotonicMs

    def left(self, now_ms: MonotonicMs) -> Delay | None:
        """The rest of it."""
        left_ms = self.delay.ms - (now_ms - self.since_ms)
        return self.delay._replace(ms=left_ms) if left_ms > 0 else None


class RequestContext:
    """One request that the broker is processing."""

    __slots__ = (
        "accounts",
        "began_ns",
        "channel",
        "client_id",
        "correlation_id",
        "handled_ns",
        "mutations",
        "pending",
        "route",
        "send",
        "size_bytes",
        "throttled",
        "version",
        "weight",
    )

    def __init__(
        self,
        route: "Route",
        correlation_id: int,
        channel: Connection,
        send: "Callable[[RequestContext, Any], None]",
        size_bytes: int,
        began_ns: int,
    ) -> None:
        self.route = route
        self.version = route.version
        self.accounts = route.accounts
        self.client_id = route.client_id
        self.correlation_id = correlation_id
        self.channel = channel
        self.send = send
        self.size_bytes = size_bytes
        """The size of the whole request, as quotas count it."""
        self.began_ns = began_ns
        """The monotonic time at which the broker's thread began to process it."""
        self.handled_ns = 0
        """The monotonic time at which it was parked; 0 if it was not."""
        self.mutations: MutationQuota | None = None
        """The quota that admits its topic mutations, if it makes any (KIP-599)."""
        self.pending: PendingAnswer | None = None
        """Its place among the answers of its connection, once others may overtake it."""
        self.throttled: Throttled | None = None
        """Set if it was charged before it is answered and the client is over its quota."""
        self.weight = 1
        """The number of partitions in the answer, if others may overtake it."""

    @property
    def user(self) -> str:
        return self.channel.principal

    @property
    def host(self) -> str:
        """The client's address."""
        return self.channel.host

    @property
    def listener(self) -> str:
        """The client's listener; answers contain endpoints of the same listener."""
        return self.channel.listener_name

    def limit_mutations(self, strict_from: int, now_ms: Callable[[], MonotonicMs]) -> Admit:
        """Begin to count this request's topic mutations; call the result for each of them. From
        version `strict_from` on, a mutation over the limit is refused rather than delayed.
        """
        quota = MutationQuota(
            self.accounts.mutations(now_ms()), now_ms, is_strict=self.version >= strict_from
        )
        self.mutations = quota
        return quota.admit

    def answer(self, response: Any) -> None:
        """Answer a parked request. NO_ANSWER lets the channel continue without an answer, APPENDED
        before it.
        """
        self.send(self, response)


P_contra = TypeVar("P_contra", contravariant=True)
ResponseT = TypeVar("ResponseT")


class Unchecked(NamedTuple):
    """Marks an API that everybody may use."""

    reason: str


@dataclass(frozen=True, slots=True)
class Handler(Generic[P_contra]):
    """One row of the dispatch table: everything that the pipeline knows of an API."""

    api: Api
    handle: Callable[[Any, RequestContext, P_contra], Any]
    takes: type[P_contra]
    """The record of services that `handle` is called with."""
    decode: Callable[[int, memoryview, int], Any]
    """Decodes a request from version, frame and the position of the body."""
    encode: "Callable[[int, int, Any, int], list[Outgoing]]"
    """Encodes an answer from version, correlation id, answer and throttle time in ms."""
    charge: Charge = ClientAccounts.on_request
    """Charges a request to the client's quotas: its CPU time, and for some APIs the bytes of the
    request or of its answer.
    """
    measure: Callable[[int, Any], int] | None = None
    """The size of an answer in bytes, from version and answer, for APIs that charge it."""
    without_data: Callable[[Any], Any] | None = None
    """Makes the answer that is sent when the client is throttled and the data would exceed its
    quota (KIP-219).
    """
    note_sent: Callable[[BrokerCounters, Any], None] | None = None
    """Counts an answer that is sent with its data."""
    errors_in: Callable[[Any], Iterable[int]] | None = None
    """The error codes in an answer; None if the handler counts them itself or cannot count them."""
    authorizes: "tuple[Right, ...] | Unchecked" = field(kw_only=True)
    """Every right that the handler checks. The request determines which of them are needed; an item
    without its right is refused.
    """
    before_authentication: bool = False
    """Whether a connection may send it before it has authenticated."""
    answers_any_version: bool = False
    """Whether it also answers unsupported versions (ApiVersions, KIP-511)."""
    carries_records: bool = False
    """Whether its requests consist mainly of records. Such a request may be large, and its records
    are in the log before it is parked. Any other request takes memory as Python objects while it is
    parked.
    """


@dataclass(slots=True)
class Route:
    """The common part of all requests with one API, version and client id on one connection."""

    handler: Handler[Any]
    services: Any
    """The record of services that the handler uses."""
    version: int
    client_id: str | None
    header_tail: bytes
    """The header after the correlation id; a request with a different one gets another route."""
    body_position: int
    accounts: ClientAccounts
    kind: RequestKind | None
    """Counts requests; None if metrics are disabled."""
    take_ticket: Callable[[], bool] | None
    """Counts a request and returns whether to time it; None if metrics are disabled."""
    mean_us: float = 0.0
    """The mean time from arrival to answer of its latest timed requests, some tens of them."""
    timed_count: int = 0


def now_or_later(
    begin: Callable[[Callable[[ResponseT], None]], None], context: RequestContext
) -> ResponseT | NotYet:
    """Begin the work for a request with the function that takes its answer, once.

    Returns the answer if that was called before `begin` has returned; else PARKED, and the request
    is answered later.
    """
    early: list[ResponseT] = []
    is_parked = False

    def respond(response: ResponseT) -> None:
        if is_parked:
            context.answer(response)
        else:
            early.append(response)

    begin(respond)
    if early:
        return early[0]
    is_parked = True
    return PARKED


def adapted(
    api: Api,
    handle: Callable[[Any, RequestContext, P_contra], Any],
    takes: type[P_contra],
    *,
    authorizes: "tuple[Right, ...] | Unchecked",
) -> Handler[P_contra]:
    """A handler whose messages are converted by the protocol adapter."""
    key = int(api.key)

    def encode(
        version: int, correlation_id: int, response: Any, throttle_ms: int
    ) -> "list[Outgoing]":
        if throttle_ms and "throttle_time" in response.__slots__:
            response.throttle_time = timedelta(milliseconds=throttle_ms)
        return [encode_response(key, version, correlation_id, response)]

    return Handler(
        api,
        handle,
        takes,
        lambda version, frame, position: decode_request(key, version, frame, position),
        encode,
        errors_in=errors_in,
        authorizes=authorizes,
    )
