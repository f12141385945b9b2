"""What handlers are given and give back: a request's context, the broker's services, answers."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.metric_counters import BrokerCounters
from cluster.brokers.network.channel import Channel, Outgoing
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.quota_changes import QuotaChanges
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.brokers.quotas.entities import ANONYMOUS
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.config.settings import Settings
from cluster.coordinator.controller.config_plans import TopicAlteration
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.plan import Outcome
from cluster.model.ids import BrokerId
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import Api
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices


class NotYet(enum.Enum):
    """What `handle` returns when it has no answer to give."""

    PARKED = "the answer comes later through RequestContext.answer"
    NO_ANSWER = "the client expects none (acks=0)"


PARKED: Final = NotYet.PARKED
NO_ANSWER: Final = NotYet.NO_ANSWER


@dataclass(slots=True)
class RequestContext:
    """One request on its way through the broker."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    channel: Channel
    send: Callable[["RequestContext", Any], None]
    size_bytes: int = 0
    """Of the whole request, as quotas count it."""
    began_us: int | None = None
    """When the broker's thread took it up; None once it is parked."""
    handled_us: int = 0
    """How long the thread had it before it was parked."""

    @property
    def user(self) -> str:
        """The principal of the connection."""
        principal = self.channel.attachment
        return principal if isinstance(principal, str) else ANONYMOUS

    @property
    def listener(self) -> str:
        """The listener it came in by: answers name endpoints of the same listener."""
        return self.channel.listener_name

    def answer(self, response: Any) -> None:
        """Answer a parked request; NO_ANSWER lets the channel go on without one."""
        self.send(self, response)


class AlterTopicConfigs(Protocol):
    """Has the controller change configs of topics."""

    def __call__(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        validate_only: bool,
        on_done: Callable[[dict[str, Outcome] | None], None],
    ) -> None:
        """Calls back once with the outcome by topic; None when the controller did not answer."""
        ...


class ProducerIdPort(Protocol):
    """Where new producer ids come from."""

    def next_id(self, on_done: Callable[[int | None], None]) -> None:
        """A cluster-wide unique producer id; None when the registry cannot be reached."""
        ...


@dataclass(slots=True)
class Services:
    """The collaborators of one broker that handlers use."""

    broker_id: BrokerId
    settings: Settings
    clock: Clock
    loop: EventLoop
    slices: Slices
    """For answers that take long to make."""
    metadata: MetadataCache
    partitions: PartitionTable
    roles: ReplicaRoles
    purgatory: Purgatory
    controller: ControllerRequests
    request_topic_creation: Callable[[list[str]], None]
    """Has missing topics created with default settings, by whoever is the controller."""
    alter_topic_configs: AlterTopicConfigs
    producer_ids: ProducerIdPort
    topic_settings: Callable[[Mapping[str, str]], Settings]
    """A topic's settings over the broker's; raises Refused(invalid_config)."""
    quotas: ClientQuotas
    quota_changes: QuotaChanges
    fetch_max_bytes: int
    api_versions: ApiVersionsAnswers
    counters: BrokerCounters | None
    """None where nothing is counted."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One row of the dispatch table; the decoder and encoder default to the adapter's."""

    api: Api
    handle: Callable[[Any, RequestContext, Services], Any]
    decode: Callable[[int, memoryview, int], Any]
    encode: Callable[[int, int, Any, int], "list[Outgoing]"]
    """Version, correlation id, answer, throttle time in ms."""


def adapted(api: Api, handle: Callable[[Any, RequestContext, Services], Any]) -> Handler:
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
        lambda version, frame, position: decode_request(key, version, frame, position),
        encode,
    )
