"""What the sub-commands of `quotas` that change limits share: options for entities and amounts."""

import argparse
import re
from typing import Final

from cluster.client.socket_client import SocketClient
from cluster.model.quotas import DEFAULT, Name, QuotaEntity
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import servers_of

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)(?:/s)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

AMOUNTS: Final = "sizes: 1048576, 1MiB or 1M (1024 x 1024 bytes), 1MB (1000 x 1000 bytes)"


def add_entity(parser: argparse.ArgumentParser) -> None:
    """Add `--user`, `--client-id`, `--ip`, and the options for the default of each."""
    user = parser.add_mutually_exclusive_group()
    user.add_argument("--user", metavar="U", help="a user")
    user.add_argument("--user-default", action="store_true", help="every user without its own")
    client = parser.add_mutually_exclusive_group()
    client.add_argument("--client-id", metavar="C", help="a client id")
    client.add_argument(
        "--client-default", action="store_true", help="every client id without its own"
    )
    address = parser.add_mutually_exclusive_group()
    address.add_argument("--ip", metavar="A", help="an address or a host name, for its connections")
    address.add_argument("--ip-default", action="store_true", help="every address without its own")


def entity_or_none(args: argparse.Namespace) -> QuotaEntity | None:
    """The entity that the options name, None when they name none. Raises UsageError."""
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
            "name whom: --client-id, --user or --ip, or the default of these: --client-default,"
            " --user-default, --ip-default"
        )
    return entity


def connected(args: argparse.Namespace) -> SocketClient:
    """A connection to the cluster. Raises UserError."""
    return SocketClient.connect(servers_of(args), "milena-quotas")


def byte_rate(text: str) -> float:
    """Bytes per second, from a number or a size such as 1MiB. Raises ArgumentTypeError."""
    matched = _AMOUNT.fullmatch(text.strip())
    if matched is None:
        raise argparse.ArgumentTypeError(f"must be bytes per second such as 1048576, not {text}")
    number, prefix, is_binary, unit = matched.groups()
    # A bare prefix is binary (1M = 1MiB); with a B it is decimal (1MB).
    base = 1000 if unit and not is_binary else 1024
    amount = float(number) * float(base ** _POWERS[prefix.lower()])
    return positive(float(round(amount)), text)


def percentage(text: str) -> float:
    """Percent of one thread's time, may exceed 100. Raises ArgumentTypeError."""
    try:
        amount = float(text.strip().removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a percentage, not {text}") from None
    return positive(amount, text)


def per_second(text: str) -> float:
    """So many per second. Raises ArgumentTypeError."""
    try:
        amount = float(text.strip().removesuffix("/s"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number per second, not {text}") from None
    return positive(amount, text)


def positive(amount: float, text: str) -> float:
    """The amount, if it is above 0 and thus valid as a limit. Raises ArgumentTypeError."""
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return amount
