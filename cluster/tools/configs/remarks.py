"""Settings as brokers describe them, and remarks on those that lack part of their effect."""

import sys
from collections.abc import Mapping

from cluster.client.cluster_requests import broker_addresses
from cluster.client.config_requests import described, shortfalls
from cluster.client.quota_requests import Caller
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.config.effect import remark_of
from cluster.config.remarks import lines_by_reason
from cluster.config.snapshot import Source
from cluster.model.errors import Refused, UserError
from cluster.protocol.messages import DescribeConfigsResourceResult
from cluster.tools.configs.listing import ConfigEntry, ListedSynonym

_CLIENT_ID = "milena-config-remarks"
_SOURCES = frozenset(map(int, Source))


def connected_to(client: SocketClient, broker: str, client_id: str) -> SocketClient:
    """A connection to the broker of that number. Raises Refused and UserError."""
    brokers = {str(number): at for number, at in broker_addresses(client).items()}
    if broker not in brokers:
        raise UserError(f"The broker '{broker}' doesn't exist.")
    return SocketClient.connect(Servers([brokers[broker]], client.security), client_id)


def entries_of(client: Caller, entity_type: str, name: str) -> list[ConfigEntry]:
    """The settings of one entity. Raises Refused and UserError."""
    return [
        ConfigEntry(
            name=each.name,
            value=each.value,
            source=_source(each.config_source),
            is_sensitive=each.is_sensitive,
            is_read_only=each.read_only,
            synonyms=_synonyms(each),
            remark=remark_of(each.documentation),
        )
        for each in described(client, entity_type, name)
    ]


def _synonyms(entry: DescribeConfigsResourceResult) -> tuple[ListedSynonym, ...]:
    return tuple(ListedSynonym(_source(s.source), s.name, s.value) for s in entry.synonyms)


def _source(code: int) -> str:
    return f"{Source(code).name}_CONFIG" if code in _SOURCES else str(code)


def warn_of_configs(client: Caller, entity_type: str, name: str, given: Mapping[str, str]) -> None:
    """Print one line on stderr per reason, naming the settings, after they have been accepted."""
    try:
        said = shortfalls(client, entity_type, name)
    except (Refused, UserError):
        return
    reasons = (
        (key, said[key].remark)
        for key, text in given.items()
        if key in said and text.strip() != said[key].default
    )
    for line in lines_by_reason("WARNING", reasons):
        print(line, file=sys.stderr)
