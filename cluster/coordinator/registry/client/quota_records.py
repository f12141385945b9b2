"""Quotas in the registry, where Kafka keeps them.

    /config/users/alice                      {"version":1,"config":{"producer_byte_rate":"1024"}}
    /config/clients/<default>
    /config/users/alice/clients/loader-1
    /config/ips/192.0.2.7                    {"version":1,"config":{"connection_creation_rate":"5"}}
    /config/changes/config_change_0000000007 {"version":2,"entity_path":"users/alice"}

A change of a config is announced by a change node in the same transaction.
"""

import logging
from collections.abc import Mapping
from urllib.parse import quote, unquote

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from cluster.coordinator.cluster_store import OnChange, Quotas
from cluster.coordinator.registry.client.change_nodes import commit_config
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.quotas import DEFAULT, Name, QuotaEntity, limits_of

log = logging.getLogger(__name__)


class QuotaRecords:
    """A `QuotaStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load(self, on_change: OnChange | None = None) -> Quotas:
        client = self._client
        client.get_children(paths.CONFIG_CHANGES, watch=self._watch(on_change))
        pending = [(entity, client.get_async(_path(entity))) for entity in self._entities()]
        quotas: Quotas = {}
        for entity, answer in pending:
            try:
                document, _ = answer.get()
                limits = limits_of(entity, znodes.decode_entity_config(document))
            except NoNodeError:
                continue  # deleted meanwhile
            except (NoAuthError, ValueError) as error:
                log.warning("ignored the quotas of %s: %r", entity, error)
                continue
            if limits:
                quotas[entity] = limits
        return quotas

    def _entities(self) -> list[QuotaEntity]:
        client = self._client
        users = client.get_children(f"{paths.CONFIG}/{paths.USER_CONFIGS}")
        clients = client.get_children(f"{paths.CONFIG}/{paths.CLIENT_CONFIGS}")
        ips = client.get_children(f"{paths.CONFIG}/{paths.IP_CONFIGS}")
        entities = [QuotaEntity(_name(user), None) for user in users]
        entities += [QuotaEntity(None, _name(client_id)) for client_id in clients]
        entities += [QuotaEntity(None, None, _name(ip)) for ip in ips]
        pairs = [
            (user, client.get_children_async(f"{_path(QuotaEntity(_name(user), None))}/clients"))
            for user in users
        ]
        for user, answer in pairs:
            try:
                entities += [QuotaEntity(_name(user), _name(each)) for each in answer.get()]
            except NoNodeError:
                continue
            except NoAuthError:
                log.warning("may not read the quotas of the clients of user %s", user)
        return entities

    def alter(
        self, entity: QuotaEntity, changes: Mapping[str, str | None], wall_ms: WallMs
    ) -> None:
        merge_config(self._client, entity, changes, wall_ms)


def merge_config(
    client: KazooClient, entity: QuotaEntity, changes: Mapping[str, str | None], wall_ms: WallMs
) -> None:
    """Merge changes (None removes a key) into the config of an entity, and announce it."""
    path = _path(entity)
    client.ensure_path(path)
    while True:
        document, stat = client.get(path)
        config = znodes.decode_entity_config(document)
        for key, text in changes.items():
            if text is None:
                config.pop(key, None)
            else:
                config[key] = text
        writes = client.transaction()
        writes.set_data(path, znodes.encode_entity_config(config), version=stat.version)
        try:
            commit_config(client, writes, path.removeprefix(f"{paths.CONFIG}/"), wall_ms)
        except BadVersionError:
            continue  # another broker has changed it
        return


def _path(entity: QuotaEntity) -> str:
    path = paths.CONFIG
    if entity.user is not None:
        path += f"/{paths.USER_CONFIGS}/{_segment(entity.user)}"
    if entity.client_id is not None:
        path += f"/{paths.CLIENT_CONFIGS}/{_segment(entity.client_id)}"
    if entity.ip is not None:
        # Kafka writes no escapes here, and an address needs none, except in the name of a zone.
        name = paths.DEFAULT_ENTITY if entity.ip is DEFAULT else quote(str(entity.ip), safe=":%")
        path += f"/{paths.IP_CONFIGS}/{name}"
    return path


def _segment(name: Name) -> str:
    """A name in a path. Only the default entity is written `<default>`: the name `<default>` of a
    user or client is escaped.
    """
    return paths.DEFAULT_ENTITY if name is DEFAULT else paths.escaped(str(name))


def _name(segment: str) -> Name:
    return DEFAULT if segment == paths.DEFAULT_ENTITY else unquote(segment)
