"""Asks a broker what it knows of a group's rebalances, by a request of our own."""

from typing import Final

from cluster.client.socket_client import SocketClient
from cluster.coordinator.groups.explanation import ExplainAnswer, pack_question, read_answer
from cluster.model.errors import PeerError, UserError
from cluster.protocol.api import OwnApiKey

_VERSION: Final = 0


def explain_group(client: SocketClient, group_id: str) -> ExplainAnswer:
    """What the broker that the client is connected to knows of a group.

    Raises UserError where it does not answer, as a broker of Kafka.
    """
    asked = client.send(OwnApiKey.EXPLAIN_GROUP, _VERSION, pack_question(group_id))
    try:
        body = client.receive(asked)
    except UserError as problem:
        raise UserError(f"{problem}; only Milena's brokers say why groups rebalance") from problem
    try:
        return read_answer(body)
    except PeerError as error:
        raise UserError(f"the broker at {client.address} answers wrongly: {error}") from error
