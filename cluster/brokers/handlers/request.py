"""What handlers are given and give back: a request's context, the broker's services, answers."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.metric_counters import BrokerCounters
from cluster.brokers.network.channel import Channel, Outgoing
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.config.settings import Settings
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.model.ids import BrokerId
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import Api
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop


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

    @property
    def listener(self) -> str:
        """The listener it came in by: answers name endpoints of the same listener."""
        return self.channel.listener_name

    def answer(self, response: Any) -> None:
        """Answer a parked request; NO_ANSWER lets the channel go on without one."""
        self.send(self, response)


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
    metadata: MetadataCache
    partitions: PartitionTable
    roles: ReplicaRoles
    purgatory: Purgatory
    controller: ControllerRequests
    request_topic_creation: Callable[[list[str]], None]
    """Has missing topics created with default settings, by whoever is the controller."""
    producer_ids: ProducerIdPort
    topic_settings: Callable[[Mapping[str, str]], Settings]
    """A topic's settings over the broker's; raises Refused(invalid_config)."""
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
    encode: Callable[[int, int, Any], "list[Outgoing]"]


def adapted(api: Api, handle: Callable[[Any, RequestContext, Services], Any]) -> Handler:
    """A handler whose messages go through the protocol adapter."""
    key = int(api.key)
    return Handler(
        api,
        handle,
        lambda version, frame, position: decode_request(key, version, frame, position),
        lambda version, correlation_id, response: [
            encode_response(key, version, correlation_id, response)
        ],
    )
