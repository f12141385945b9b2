"""`quotas list`: all limits, the most specific rule first."""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.client.quota_requests import describe_quotas
from cluster.model.errors import Refused
from cluster.model.printable import one_line
from cluster.model.quotas import ALL_RULES, DEFAULT, QUOTA_KEYS, Name, QuotaEntity
from cluster.runtime.text_table import table_text
from cluster.tools.kafka_connection import add_servers
from cluster.tools.quotas.options import add_entity, connected, entity_or_none
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.quantities import rate

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_NAMES = ("RULE", "USER", "CLIENT-ID", "IP")
_HEADINGS = (*_NAMES, *(kind.value.upper() for kind in QUOTA_KEYS.values()))


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas list` and its options to `subparsers`."""
    parser = add_subcommand(subparsers, "list", "quotas list", "quotas list --user alice --json")
    add_entity(parser)
    parser.add_argument("--json", action="store_true", help="one array, for scripts")
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Print all limits, which hold per broker, as a table or JSON. Returns the exit status."""
    only = entity_or_none(args)
    with connected(args) as client:
        try:
            quotas = describe_quotas(client)
        except Refused as refused:
            print(f"error: {refused.reason}", file=sys.stderr)
            return 1
    chosen = sorted(
        (
            (entity, limits)
            for entity, limits in quotas.items()
            if only is None
            or all(want in (None, has) for want, has in zip(only, entity, strict=True))
        ),
        key=lambda item: (ALL_RULES.index(item[0].rule), str(item[0])),
    )
    if args.json:
        print(json.dumps([_as_json(entity, limits) for entity, limits in chosen], indent=2))
    elif chosen:
        rows = [_row(entity, limits) for entity, limits in chosen]
        print(table_text(_HEADINGS, rows, right=_HEADINGS[len(_NAMES) :]))
    else:
        print("no quotas are set")
    return 0


def _as_json(entity: QuotaEntity, limits: Mapping[str, float]) -> dict[str, object]:
    """One entity and its limits; `user`, `client_id` or `ip` is null if not part of the entity."""
    return {
        "rule": entity.rule,
        "user": _name(entity.user),
        "client_id": _name(entity.client_id),
        "ip": _name(entity.ip),
        **limits,
    }


def _row(entity: QuotaEntity, limits: Mapping[str, float]) -> tuple[str, ...]:
    return (
        entity.rule,
        one_line(_name(entity.user) or "-"),
        one_line(_name(entity.client_id) or "-"),
        one_line(_name(entity.ip) or "-"),
        *(rate(kind.value, limits.get(key)) for key, kind in QUOTA_KEYS.items()),
    )


def _name(name: Name | None) -> str | None:
    return DEFAULT.value if name is DEFAULT else name
