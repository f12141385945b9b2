"""`quotas list`: all limits, the most specific rule first."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.client.quota_requests import describe_quotas
from cluster.model.errors import Refused
from cluster.model.printable import one_line
from cluster.model.quotas import ALL_RULES, DEFAULT, QUOTA_KEYS, Name, QuotaEntity
from cluster.runtime.text_table import table_text
from cluster.tools.kafka_connection import add_servers
from cluster.tools.missing_rights import right_hint
from cluster.tools.quotas.options import add_entity, connected, entity_or_none
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.quantities import rate

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_NAMES: Final = ("APPLIES TO", "RULE")
_OTHERS: Final = ("all other users", "all other client ids", "all other addresses")
_ONE: Final = ("user", "client id", "address")
"""By the parts of an entity, in its order."""


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
            print(f"error: {refused.reason}{right_hint(refused.code, args)}", file=sys.stderr)
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
        print(limits_table(chosen))
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


def limits_table(chosen: Sequence[tuple[QuotaEntity, Mapping[str, float]]]) -> str:
    """A line for each entity, and a column for each quota that one of them has."""
    keys = [key for key in QUOTA_KEYS if any(key in limits for _, limits in chosen)]
    amounts = [QUOTA_KEYS[key].value.upper() for key in keys]
    rows = [
        (
            applies_to(entity),
            entity.rule,
            *(rate(QUOTA_KEYS[key].value, limits[key]) if key in limits else "" for key in keys),
        )
        for entity, limits in chosen
    ]
    return table_text((*_NAMES, *amounts), rows, right=amounts)


def applies_to(entity: QuotaEntity) -> str:
    """`user alice, all other client ids (default)`, on one line."""
    return ", ".join(
        f"{others} (default)" if name is DEFAULT else f"{one} {one_line(name)}"
        for others, one, name in zip(_OTHERS, _ONE, entity, strict=True)
        if name is not None
    )


def _name(name: Name | None) -> str | None:
    return DEFAULT.value if name is DEFAULT else name
