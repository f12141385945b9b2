"""`configs --alter`: reads `--add-config` and `--delete-config`, and carries the changes out."""

import argparse
import re
from pathlib import Path
from typing import Final

from cluster.client.config_requests import alter_configs, described
from cluster.client.quota_requests import alter_quotas, describe_quotas
from cluster.client.socket_client import SocketClient
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import DEFAULT
from cluster.tools.arguments import UsageError
from cluster.tools.configs.entities import Entity, quota_entity
from cluster.tools.configs.listing import DEFAULT_NAME
from cluster.tools.configs.remarks import connected_to, warn_of_configs
from cluster.tools.configs.scram import KEYS as scram_keys
from cluster.tools.configs.scram import alter_scram
from cluster.tools.options import warn_of_readers

_CLIENT_ID: Final = "milena-configs"
_LEVELS: Final = {
    "groups": Source.DYNAMIC_GROUP,
    "client-metrics": Source.DYNAMIC_CLIENT_METRICS,
}
"""Where the settings of an entity are that any broker changes."""
_PAIR: Final = re.compile(r"\s*([^=,\[\]]+)=(?:\[([^\]]*)\]|([^,\[\]]*))\s*(?:,|$)")


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the options of `--alter`."""
    group = parser.add_argument_group("with --alter")
    group.add_argument(
        "--add-config", metavar="K=V,K=[V,V]", action="append", default=[], help="values to set"
    )
    group.add_argument(
        "--add-config-file", metavar="FILE", type=Path, help="a properties file with values to set"
    )
    group.add_argument(
        "--delete-config", metavar="K,K", action="append", default=[], help="values to remove"
    )


def changes(args: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """What to set and what to remove. Raises UsageError, and UserError for an unreadable file."""
    added: dict[str, str] = {}
    if args.add_config_file is not None:
        if args.add_config:
            raise UsageError("--add-config-file and --add-config exclude each other")
        from cluster.config.properties_file import read_properties_file  # its library is slow

        added.update(read_properties_file(args.add_config_file).texts)
        warn_of_readers(args.add_config_file, added)
    for text in args.add_config:
        added.update(pairs(text))
    deleted = [key.strip() for text in args.delete_config for key in text.split(",") if key.strip()]
    if not added and not deleted:
        raise UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    return added, deleted


def pairs(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]`: brackets hold a value that contains commas. Raises UsageError."""
    found = {}
    position = 0
    while position < len(text):
        matched = _PAIR.match(text, position)
        if matched is None:
            # Not the value, which may be a password.
            key = text[position:].partition("=")[0]
            raise UsageError(
                f"cannot read --add-config from {key.strip()!r}: write key=value, or key=[a,b]"
            )
        key, listed, plain = matched.groups()
        found[key.strip()] = plain.strip() if listed is None else listed
        position = matched.end()
    return found


def alter(
    client: SocketClient, found: list[Entity], added: dict[str, str], deleted: list[str]
) -> str:
    """Carry the changes out and return the line to print.

    Raises Refused and UsageError, and UserError where a broker is not reached.
    """
    head = found[0]
    if head.is_of_quotas:
        _alter_users(client, found, added, deleted)
    elif head.name is None:
        or_default = " or --entity-default" if head.type == "brokers" else ""
        raise UsageError(f"--alter needs --entity-name{or_default} for {head.type}")
    elif head.type == "topics":
        _alter_settings(client, head.type, str(head.name), added, deleted)
    elif head.type in _LEVELS:
        _check_set(client, head.type, str(head.name), _LEVELS[head.type], deleted)
        _alter_settings(client, head.type, str(head.name), added, deleted)
    elif head.name is DEFAULT:
        _check_set(client, "brokers", DEFAULT_NAME, Source.DYNAMIC_DEFAULT_BROKER, deleted)
        _alter_settings(client, head.type, DEFAULT_NAME, added, deleted)
    else:
        _alter_broker(client, head.type, str(head.name), added, deleted)
    if head.name is DEFAULT:
        return f"Completed updating default config for {head.type} in the cluster."
    return f"Completed updating config for {head.type.removesuffix('s')} {head.name}."


def _alter_broker(
    client: SocketClient,
    entity_type: str,
    name: str,
    added: dict[str, str],
    deleted: list[str],
) -> None:
    """Over a connection to that broker: each changes its own settings and loggers."""
    with connected_to(client, name, _CLIENT_ID) as own_client:
        if entity_type == "brokers":
            _check_set(own_client, entity_type, name, Source.DYNAMIC_BROKER, deleted)
        _alter_settings(own_client, entity_type, name, added, deleted)


def _check_set(
    client: SocketClient, entity_type: str, name: str, source: Source, deleted: list[str]
) -> None:
    """Raise Refused for a key to delete that is not set there, as Kafka's tool does."""
    if not deleted:
        return
    present = {e.name for e in described(client, entity_type, name) if e.config_source == source}
    missing = [key for key in deleted if key not in present]
    if missing:
        raise Refused(ErrorCode.invalid_config, f"Invalid config(s): {', '.join(missing)}")


def _alter_settings(
    client: SocketClient, entity_type: str, name: str, added: dict[str, str], deleted: list[str]
) -> None:
    alter_configs(client, entity_type, name, added, deleted)
    if added:
        warn_of_configs(client, entity_type, name, added)


def _alter_users(
    client: SocketClient, found: list[Entity], added: dict[str, str], deleted: list[str]
) -> None:
    """Quotas and, of one user alone, passwords."""
    scram = scram_keys if [each.type for each in found] == ["users"] else frozenset[str]()
    limits = {key: text for key, text in added.items() if key not in scram}
    unlimited = [key for key in deleted if key not in scram]
    if limits or unlimited:
        _alter_quotas(client, found, limits, unlimited)
    passwords = {key: text for key, text in added.items() if key in scram}
    removed = [key for key in deleted if key in scram]
    if passwords or removed:
        alter_scram(client, found, passwords, removed)


def _alter_quotas(
    client: SocketClient, found: list[Entity], added: dict[str, str], deleted: list[str]
) -> None:
    entity = quota_entity(found)
    unknown = [key for key in (*added, *deleted) if key not in entity.keys]
    if unknown:
        raise Refused(
            ErrorCode.invalid_request,
            f"Only quota configs can be altered for '{found[0].type}'."
            f" Unexpected config names: {', '.join(unknown)}",
        )
    present = describe_quotas(client).get(entity, {}) if deleted else {}
    missing = [key for key in deleted if key not in present]
    if missing:
        raise Refused(ErrorCode.invalid_config, f"Invalid config(s): {', '.join(missing)}")
    limits: dict[str, float | None] = dict.fromkeys(deleted)
    for key, text in added.items():
        try:
            limits[key] = float(text)
        except ValueError:
            raise Refused(
                ErrorCode.invalid_request,
                f"Cannot parse quota configuration value for {key}: {text}",
            ) from None
    alter_quotas(client, entity, limits)
