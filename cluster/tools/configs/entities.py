"""The entities of `configs`: pairs of entity type and name, with the options of Kafka's tool."""

import argparse
from typing import Final, NamedTuple

from cluster.model.quotas import DEFAULT, Name, QuotaEntity
from cluster.quotas.alteration import (
    CLIENT_ID,
    IP,
    MATCH_ANY,
    MATCH_DEFAULT,
    MATCH_EXACT,
    USER,
    FilterComponent,
    entity_of,
)
from cluster.tools.arguments import UsageError

TYPES: Final = (
    *("topics", "brokers", "broker-loggers", "users", "clients", "ips", "groups"),
    "client-metrics",
)
_WITH_DEFAULT: Final = ("brokers", "users", "clients", "ips")
QUOTA_TYPES: Final = {"users": USER, "clients": CLIENT_ID, "ips": IP}


class Entity(NamedTuple):
    """One pair; a name of None stands for all entities of that type."""

    type: str
    name: Name | None

    @property
    def is_of_quotas(self) -> bool:
        """Whether the entity has quotas (users, clients, ips) rather than settings."""
        return self.type in QUOTA_TYPES


def add_entities(parser: argparse.ArgumentParser) -> None:
    """Add `--entity-type`, `--entity-name` and `--entity-default`, and their short forms."""
    group = parser.add_argument_group("whose settings (users and clients may be given together)")
    group.add_argument(
        "--entity-type",
        action="append",
        choices=TYPES,
        default=[],
        dest="entity_types",
        metavar="TYPE",
        help=", ".join(TYPES),
    )
    group.add_argument(
        "--entity-name",
        action="append",
        dest="entity_names",
        metavar="X",
        default=[],
        help="a topic, a broker's number, a user, a client id, a group or a client metrics"
        " subscription (default: each of them)",
    )
    group.add_argument(
        "--entity-default",
        action="append_const",
        dest="entity_names",
        const=DEFAULT,
        help="instead of a name: all other users, client ids or brokers (default)",
    )
    for option, entity_type in (
        ("topic", "topics"),
        ("broker", "brokers"),
        ("user", "users"),
        ("client", "clients"),
        ("ip", "ips"),
        ("group", "groups"),
        ("client-metrics", "client-metrics"),
    ):
        group.add_argument(
            f"--{option}",
            metavar="X",
            dest="short_entities",
            action="append",
            default=[],
            type=lambda name, entity_type=entity_type: Entity(entity_type, name),  # type: ignore[misc]  # binds this type
            help=f"short for --entity-type {entity_type} --entity-name X",
        )
    for option, entity_type in (
        ("broker", "brokers"),
        ("user", "users"),
        ("client", "clients"),
        ("ip", "ips"),
    ):
        group.add_argument(
            f"--{option}-defaults",
            dest="short_entities",
            action="append_const",
            const=Entity(entity_type, DEFAULT),
            help=f"short for --entity-type {entity_type} --entity-default",
        )


def entities(args: argparse.Namespace) -> list[Entity]:
    """The entities that the options name: one, or a user and a client id. Raises UsageError."""
    types: list[str] = args.entity_types
    names: list[Name] = args.entity_names
    if len(names) > len(types):
        raise UsageError("--entity-name goes with --entity-type")
    padded: list[Name | None] = [*names, *[None] * (len(types) - len(names))]
    found = [Entity(*pair) for pair in zip(types, padded, strict=True)]
    found += args.short_entities
    if not found:
        raise UsageError(
            "say whose: --entity-type, or --topic, --broker, --user, --client, --group"
        )
    if len({entity.type for entity in found}) < len(found):
        raise UsageError("an entity type can be given once")
    if len(found) > 1 and not {entity.type for entity in found} <= {"users", "clients"}:
        raise UsageError("only users and clients go together")
    for entity in found:
        if entity.name == "":
            raise UsageError("a name cannot be empty")
        if entity.type == "broker-loggers" and entity.name is None:
            raise UsageError("broker-loggers needs --entity-name, a broker's number")
        if entity.name is DEFAULT and entity.type not in _WITH_DEFAULT:
            raise UsageError("--entity-default goes with brokers, users, clients and ips")
    return found


def quota_entity(found: list[Entity]) -> QuotaEntity:
    """The one entity whose quotas are to be altered. Raises UsageError when one has no name."""
    for entity in found:
        if entity.name is None:
            raise UsageError(f"--alter needs --entity-name or --entity-default for {entity.type}")
    return entity_of(
        [
            (QUOTA_TYPES[each.type], None if each.name is DEFAULT else str(each.name))
            for each in found
        ]
    )


def quota_filter(found: list[Entity]) -> list[FilterComponent]:
    """The filter of the DescribeClientQuotas request for these entities."""
    components = []
    for entity in found:
        entity_type = QUOTA_TYPES[entity.type]
        if entity.name is None:
            components.append(FilterComponent(entity_type, MATCH_ANY, None))
        elif entity.name is DEFAULT:
            components.append(FilterComponent(entity_type, MATCH_DEFAULT, None))
        else:
            components.append(FilterComponent(entity_type, MATCH_EXACT, str(entity.name)))
    return components
