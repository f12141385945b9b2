"""UnregisterBroker (API key 64), version 0 (KIP-631).

Any broker serves it. It forgets a broker that has stopped: the record of its log directories, by
which a broker that returns without them is recognized. Kafka's controller also forgets a broker
that is alive, which then serves nothing until it is restarted, and one with replicas; here both are
refused.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, check
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse

API: Final = Api(ApiKey.UNREGISTER_BROKER, 0, 0)


def handle(
    request: UnregisterBrokerRequest, context: RequestContext, services: AdminServices
) -> UnregisterBrokerResponse | NotYet:
    """Have the registry forget the broker, unless it is alive or has replicas."""
    broker = BrokerId(request.broker_id)
    try:
        check(services, context, ALTER_CLUSTER)
        count = sum(
            broker in state.replicas
            for topic in services.metadata.topics.values()
            for state in topic.partitions.values()
        )
        if count:
            raise Refused(
                ErrorCode.invalid_request,
                f"Broker ID {broker} has replicas of {count} partitions: move them away first",
            )
    except Refused as refused:
        return _response(Outcome(refused.code, refused.detail))
    services.departed_brokers.forget(broker, lambda done: context.answer(_response(done)))
    return PARKED


def _response(outcome: Outcome) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(
        throttle_time=timedelta(0),
        error_code=outcome.code,
        error_message=outcome.detail or "",
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER,))
