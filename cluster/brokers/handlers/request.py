"""What handlers are given and give back: a request's context, answers, a row of the dispatch table.

Each handler names the record of services that it uses of its broker (`services`).
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

from cluster.brokers.handlers.errors_in_answers import errors_in
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.request_times import RequestKind
from cluster.brokers.network.connection import Connection, Outgoing
from cluster.coordinator.controller.topic_plans import Admit
from cluster.model.acls import Right
from cluster.model.clocks import MonotonicMs
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import Api
from cluster.quotas.client_accounts import Charge, ClientAccounts
from cluster.quotas.mutation_quota import MutationQuota


class NotYet(enum.Enum):
    """What `handle` returns when it has no answer to give."""

    PARKED = "the answer comes later through RequestContext.answer"
    NO_ANSWER = "the client expects none (acks=0)"


PARKED: Final = NotYet.PARKED
NO_ANSWER: Final = NotYet.NO_ANSWER


class RequestContext:
    """One request on its way through the broker."""

    __slots__ = (
        "accounts",
        "began_ns",
        "channel",
        "client_id",
        "correlation_id",
        "handled_ns",
        "mutations",
        "route",
        "send",
        "size_bytes",
        "version",
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
        """Of the whole request, as quotas count it."""
        self.began_ns = began_ns
        """Monotonic time at which the broker's thread began with it."""
        self.handled_ns = 0
        """When it was parked; 0 if it was not."""
        self.mutations: MutationQuota | None = None
        """What it may change of topics, where it changes any (KIP-599)."""

    @property
    def user(self) -> str:
        """The principal of the connection."""
        return self.channel.principal

    @property
    def host(self) -> str:
        """The address that the connection comes from."""
        return self.channel.host

    @property
    def listener(self) -> str:
        """The listener it came in by: answers name endpoints of the same listener."""
        return self.channel.listener_name

    def limit_mutations(self, strict_from: int, now_ms: Callable[[], MonotonicMs]) -> Admit:
        """Count this request's changes of topics; what is called for each. `strict_from` is the
        first version in which a change over the limit is refused, rather than waited for.
        """
        quota = MutationQuota(
            self.accounts.mutations(now_ms()), now_ms, is_strict=self.version >= strict_from
        )
        self.mutations = quota
        return quota.admit

    def answer(self, response: Any) -> None:
        """Answer a parked request; NO_ANSWER lets the channel go on without one."""
        self.send(self, response)


P_contra = TypeVar("P_contra", contravariant=True)


class Unchecked(NamedTuple):
    """Says of an API that everybody may use it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Handler(Generic[P_contra]):
    """One row of the dispatch table: all that the pipeline has to know of an API."""

    api: Api
    handle: Callable[[Any, RequestContext, P_contra], Any]
    takes: type[P_contra]
    """The record of services that `handle` is called with."""
    decode: Callable[[int, memoryview, int], Any]
    """From version, frame and the position of the body to the request."""
    encode: "Callable[[int, int, Any, int], list[Outgoing]]"
    """From version, correlation id, answer and throttle time in ms to what is sent."""
    charge: Charge = ClientAccounts.on_request
    """What a request is charged to: its time, and for some its bytes or those of its answer."""
    measure: Callable[[int, Any], int] | None = None
    """From version and answer to its size in bytes, where that is charged."""
    without_data: Callable[[Any], Any] | None = None
    """From an answer to what is sent when it is throttled: its bytes would be over the limit
    (KIP-219)."""
    note_sent: Callable[[BrokerCounters, Any], None] | None = None
    """Counts an answer that leaves with its data."""
    errors_in: Callable[[Any], Iterable[int]] | None = None
    """The codes of errors in an answer; None where the handler counts them itself, or cannot."""
    authorizes: "tuple[Right, ...] | Unchecked" = field(kw_only=True)
    """Everything that it asks the authorizer for; which of it a request needs depends on the
    request, and its item is refused without it."""
    before_authentication: bool = False
    """Whether a connection may send it before it has authenticated."""
    answers_any_version: bool = False
    """Whether it answers versions that it does not serve (ApiVersions, KIP-511)."""
    carries_records: bool = False
    """Whether its requests are mostly records: these may be large, and are in the log before the
    request is parked. Any other request takes memory as Python objects while it is parked."""


@dataclass(slots=True)
class Route:
    """What is the same for all requests of one API, version and client id on one connection."""

    handler: Handler[Any]
    services: Any
    """The record that the handler takes."""
    version: int
    client_id: str | None
    header_tail: bytes
    """The header after the correlation id; a request whose bytes differ gets another route."""
    body_position: int
    accounts: ClientAccounts
    kind: RequestKind | None
    """Counts a request; None where nothing is counted."""
    take_ticket: Callable[[], bool] | None
    """Counts a request, and says whether it is to be timed; None where nothing is counted."""


def adapted(
    api: Api,
    handle: Callable[[Any, RequestContext, P_contra], Any],
    takes: type[P_contra],
    *,
    authorizes: "tuple[Right, ...] | Unchecked",
) -> Handler[P_contra]:
    """A handler whose messages go through the protocol adapter."""
    key = int(api.key)

    def encode(
        version: int, correlation_id: int, response: Any, throttle_ms: int
    ) -> "list[Outgoing]":
        if throttle_ms:
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
