"""`quotas set`: limits a client id, a user, a pair of them, an address, or the default of each."""

import argparse
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from cluster.client.quota_requests import alter_quotas
from cluster.model.errors import Refused
from cluster.model.quotas import QUOTA_KEYS, QuotaEntity
from cluster.tools.arguments import UsageError
from cluster.tools.kafka_connection import add_servers
from cluster.tools.missing_rights import right_hint
from cluster.tools.quotas.options import add_entity, chosen_entity, connected
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.amounts import AMOUNTS, byte_rate, per_second, percentage
from cluster.views.quantities import rate

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas set` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "set",
        "quotas set --client-id loader-1 --producer-byte-rate 1MiB",
        "quotas set --user alice --client-default --consumer-byte-rate 500KB",
        "quotas set --client-default --request-percentage 50",
        "quotas set --ip-default --connection-creation-rate 100",
    )
    add_entity(parser)
    limits = parser.add_argument_group("limits, each per broker", AMOUNTS)
    limits.add_argument(
        "--producer-byte-rate", type=byte_rate, metavar="B", help="bytes per second to produce"
    )
    limits.add_argument(
        "--consumer-byte-rate", type=byte_rate, metavar="B", help="bytes per second to fetch"
    )
    limits.add_argument(
        "--request-percentage",
        type=percentage,
        metavar="P",
        help="percent of one thread's time for all requests",
    )
    limits.add_argument(
        "--controller-mutation-rate",
        type=per_second,
        metavar="N",
        help="partitions per second to create or delete",
    )
    limits.add_argument(
        "--connection-creation-rate",
        type=per_second,
        metavar="N",
        help="connections per second, of an address",
    )
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Set the limits, which take effect on every broker. Returns the exit status."""
    entity = chosen_entity(args)
    limits: dict[str, float | None] = {
        key: value for key in QUOTA_KEYS if (value := getattr(args, key)) is not None
    }
    if not limits:
        options = ", ".join(f"--{key.replace('_', '-')}" for key in QUOTA_KEYS)
        raise UsageError(f"say how much: {options}")
    _check_keys(entity, limits)
    with connected(args) as client:
        try:
            alter_quotas(client, entity, limits)
        except Refused as refused:
            print(f"error: {refused.reason}{right_hint(refused.code, args)}", file=sys.stderr)
            return 1
    for key, value in limits.items():
        # The value as Kafka stores it, then with a unit.
        print(f"{entity}: {key}={value:.12g} ({rate(QUOTA_KEYS[key].value, value)} per broker)")
    return 0


def _check_keys(entity: QuotaEntity, keys: Collection[str]) -> None:
    """Raises UsageError for a limit that the entity cannot have."""
    for key in keys:
        if key not in entity.keys:
            option = f"--{key.replace('_', '-')}"
            raise UsageError(
                f"{option} limits clients: name them by --client-id or --user, not by --ip"
                if entity.ip is not None
                else f"{option} limits addresses: name one by --ip, or all by --ip-default"
            )
