"""Asks a broker for the id of an idempotent producer (KIP-98)."""

from datetime import timedelta
from typing import Final

from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import InitProducerIdRequest
from cluster.records.builder import ProducerIdentity

_NO_TIME: Final = timedelta(0)


def new_producer(client: SocketClient) -> ProducerIdentity:
    """A producer that no one else is, before its first record. Raises Refused, UserError.

    Brokers refuse a login that may write to no topic (KIP-679) with CLUSTER_AUTHORIZATION_FAILED.
    """
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout=_NO_TIME)
    answer = client.call(ApiKey.INIT_PRODUCER_ID, asked)
    if answer.error_code is not ErrorCode.none:
        raise Refused(answer.error_code)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch, 0)
