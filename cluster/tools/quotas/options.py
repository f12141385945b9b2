"""Options for entities, shared by the sub-commands of `quotas` that change limits."""

import argparse

from cluster.client.socket_client import SocketClient
from cluster.model.quotas import DEFAULT, Name, QuotaEntity
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import servers_of


def add_entity(parser: argparse.ArgumentParser) -> None:
    """Add `--user`, `--client-id`, `--ip`, and the options for the default of each."""
    user = parser.add_mutually_exclusive_group()
    user.add_argument("--user", metavar="U", help="a user")
    user.add_argument("--user-default", action="store_true", help="all other users (default)")
    client = parser.add_mutually_exclusive_group()
    client.add_argument("--client-id", metavar="C", help="a client id")
    client.add_argument(
        "--client-default", action="store_true", help="all other client ids (default)"
    )
    address = parser.add_mutually_exclusive_group()
    address.add_argument("--ip", metavar="A", help="an address or a host name, for its connections")
    address.add_argument("--ip-default", action="store_true", help="all other addresses (default)")


def entity_or_none(args: argparse.Namespace) -> QuotaEntity | None:
    """The entity that the options name; None without one. Raises UsageError."""
    user: Name | None = DEFAULT if args.user_default else args.user
    client_id: Name | None = DEFAULT if args.client_default else args.client_id
    ip: Name | None = DEFAULT if args.ip_default else args.ip
    entity = QuotaEntity(user, client_id, ip)
    if "" in entity:
        raise UsageError("a name cannot be empty")
    if ip is not None and (user, client_id) != (None, None):
        raise UsageError("--ip goes with neither --user nor --client-id")
    return None if entity == (None, None, None) else entity


def chosen_entity(args: argparse.Namespace) -> QuotaEntity:
    """The entity that the options name. Raises UsageError without one."""
    entity = entity_or_none(args)
    if entity is None:
        raise UsageError(
            "name a client: --client-id, --user or --ip, or the default of these: --client-default,"
            " --user-default, --ip-default"
        )
    return entity


def connected(args: argparse.Namespace) -> SocketClient:
    """A connection to the cluster. Raises UserError."""
    return SocketClient.connect(servers_of(args), "milena-quotas")
