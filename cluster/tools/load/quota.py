"""Limits the produce rate of one client of a scenario: the function behind `quotas set`."""

from cluster.client.quota_requests import alter_quotas
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import Refused, UserError
from cluster.model.quotas import QuotaEntity

_KEY = "producer_byte_rate"


def limit_producer(servers: Servers, client_id: str, bytes_per_s: float | None) -> None:
    """Set the produce quota of a client id, in bytes/s per broker, or remove it with None.

    Raises UserError.
    """
    with SocketClient.connect(servers, "milena-load-test") as client:
        try:
            alter_quotas(client, QuotaEntity(None, client_id), {_KEY: bytes_per_s})
        except Refused as refusal:
            raise UserError(f"cannot limit client {client_id}: {refusal.reason}") from None
