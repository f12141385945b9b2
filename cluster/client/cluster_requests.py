"""Asks a cluster which brokers are alive, and to forget those that are not."""

from cluster.client.quota_requests import Caller
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import DescribeClusterRequest, UnregisterBrokerRequest


def broker_addresses(client: Caller) -> dict[int, tuple[str, int]]:
    """Host and port of each live broker, by id. Raises Refused."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=False
    )
    response = client.call(ApiKey.DESCRIBE_CLUSTER, request)
    if response.error_code is not ErrorCode.none:
        raise Refused(response.error_code, response.error_message or "")
    return {broker.broker_id: (broker.host, broker.port) for broker in response.brokers}


def unregister_broker(client: Caller, broker: int) -> None:
    """Forget a broker that has stopped and holds no replicas. Raises Refused."""
    told = client.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=broker))
    if told.error_code is not ErrorCode.none:
        raise Refused(told.error_code, told.error_message or "")
