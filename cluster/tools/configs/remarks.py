"""Remarks on settings that lack part of their documented effect, in listings and as warnings.

They come from the documentation in DescribeConfigs responses. confluent-kafka does not return it,
so this module requests it over a connection of its own. Where that fails (a cluster with TLS, one
that is stopping), there are no remarks.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from cluster.client.config_requests import shortfalls
from cluster.client.quota_requests import Caller
from cluster.client.socket_client import SocketClient
from cluster.config.remarks import lines_by_reason
from cluster.model.errors import Refused, UserError
from cluster.tools.configs.listing import ConfigEntry

_CLIENT_ID = "milena-config-remarks"


def with_remarks(
    servers: Sequence[tuple[str, int]], entity_type: str, found: Mapping[str, list[ConfigEntry]]
) -> dict[str, list[ConfigEntry]]:
    """The settings of topics or of one broker, by name, with the remarks of one of `servers`."""
    remarked = dict(found)
    with suppress(UserError), SocketClient.connect(servers, _CLIENT_ID) as client:
        for name, entries in found.items():
            with suppress(Refused):  # deleted meanwhile
                said = shortfalls(client, entity_type, name)
                remarked[name] = [
                    replace(entry, remark=said[entry.name].remark) if entry.name in said else entry
                    for entry in entries
                ]
    return remarked


def warn_of_new_topic(
    servers: Sequence[tuple[str, int]], topic: str, given: Mapping[str, str]
) -> None:
    """Call `warn_of_topic_configs` with a new connection to one of `servers`."""
    with suppress(UserError), SocketClient.connect(servers, _CLIENT_ID) as client:
        warn_of_topic_configs(client, topic, given)


def warn_of_topic_configs(client: Caller, topic: str, given: Mapping[str, str]) -> None:
    """Print one line on stderr per reason, naming the settings, after they have been accepted."""
    try:
        said = shortfalls(client, "topics", topic)
    except (Refused, UserError):
        return
    reasons = (
        (key, said[key].remark)
        for key, text in given.items()
        if key in said and text.strip() != said[key].default
    )
    for line in lines_by_reason("WARNING", reasons):
        print(line, file=sys.stderr)
