"""Why records are not delivered, as far as it can be asked: full disks, and what `status` knows."""

import argparse

from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.socket_client import SocketClient
from cluster.datadir.supervisor_socket import NotRunning
from cluster.model.errors import Refused, UserError
from cluster.model.sizes import size_text
from cluster.tools.arguments import data_dir, running_state, stated_servers
from cluster.tools.kafka_connection import servers_of
from cluster.views.running_cluster import read_health

_ASK_TIMEOUT_S = 3.0
_LITTLE_BYTES = 16 << 20
_LITTLE_SHARE = 10
"""A directory with less than that, and less than a tenth of its disk, is reported: brokers
that have no other reserve take no records then (decision 048)."""


def reason_for_silence(args: argparse.Namespace) -> str:
    """In words what may keep brokers from taking records; empty where nothing is known."""
    if stated_servers(args) is None:
        try:
            health = read_health(data_dir(args), running_state(args))
        except NotRunning:
            return "the cluster does not run"
        return "; ".join(problem.text for problem in health.problems)
    try:
        servers = servers_of(args)
    except UserError:
        return ""
    found = []
    for address in servers.addresses:
        try:
            with SocketClient.connect(servers.only(address), "milena-check", _ASK_TIMEOUT_S) as one:
                directories = describe_log_dirs(one)
        except (UserError, Refused):
            continue
        found += [
            f"{each.path} at {address[0]}:{address[1]} has {size_text(each.usable_bytes)} of"
            f" {size_text(each.total_bytes)} free"
            for each in directories
            if 0 <= each.usable_bytes < min(_LITTLE_BYTES, each.total_bytes // _LITTLE_SHARE)
        ]
    return "; ".join(found)
