"""`quotas unset`: removes limits."""

import argparse
import sys
from typing import TYPE_CHECKING

from cluster.client.quota_requests import alter_quotas, describe_quotas
from cluster.model.errors import Refused, UserError
from cluster.model.quotas import QUOTA_KEYS
from cluster.tools.kafka_connection import add_servers
from cluster.tools.missing_rights import right_hint
from cluster.tools.quotas.options import add_entity, chosen_entity, connected
from cluster.tools.quotas.subcommands import add_subcommand

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas unset` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "unset",
        "quotas unset --client-id loader-1",
        "quotas unset --user alice --client-default --consumer-byte-rate",
    )
    add_entity(parser)
    limits = parser.add_argument_group("limits (default: all of them)")
    for key in QUOTA_KEYS:
        limits.add_argument(f"--{key.replace('_', '-')}", action="store_true")
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Remove the limits; clients throttled by them continue at once. Raises UserError."""
    entity = chosen_entity(args)
    with connected(args) as client:
        try:
            present = describe_quotas(client).get(entity, {})
            named = [key for key in QUOTA_KEYS if getattr(args, key)]
            doomed = named or list(present)
            missing = [key for key in doomed if key not in present]
            if missing or not doomed:
                raise UserError(f"{entity} has no {missing[0] if missing else 'quota'}")
            alter_quotas(client, entity, dict.fromkeys(doomed))
        except Refused as refused:
            print(f"error: {refused.reason}{right_hint(refused.code, args)}", file=sys.stderr)
            return 1
    for key in doomed:
        print(f"{entity}: {key} is removed")
    return 0
