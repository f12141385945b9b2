"""The current leader, for clients that sent a request to the wrong broker (KIP-951)."""

from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import Services
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.endpoints import NodeEndpoint


def leader_hint(partition: TopicPartition, services: Services) -> tuple[int, int] | None:
    """Id and epoch of the partition's leader as far as this broker knows, or None.

    None also if the leader's process has ended, because its successor is not known yet.
    """
    state = services.metadata.partition(partition)
    if state is None or not state.has_leader:
        return None
    if services.liveness.is_lost(state.leader, services.loop.now_ms):
        return None
    return state.leader, state.leader_epoch


def endpoints_of(
    broker: int, context: RequestContext, services: Services
) -> dict[int, NodeEndpoint]:
    """The endpoint of that broker on the client's listener, by broker id; empty while it is not
    registered.
    """
    registration = services.metadata.brokers.get(BrokerId(broker))
    endpoint = None if registration is None else registration.endpoint(context.listener)
    if registration is None or endpoint is None:
        return {}
    return {broker: NodeEndpoint(broker, endpoint.host, endpoint.port, registration.rack)}
