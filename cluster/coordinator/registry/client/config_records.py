"""Configs of brokers, groups and client metrics in the registry, where Kafka keeps or would keep
them.

    /config/brokers/2                        {"version":1,"config":{"log.segment.bytes":"1048576"}}
    /config/brokers/<default>                what holds for brokers without a value of their own
    /config/groups/billing                   {"version":1,"config":{...}}
    /config/client-metrics/latency           {"version":1,"config":{...}}
    /config/changes/config_change_0000000007 {"version":2,"entity_path":"brokers/2"}

A change of a config is announced by a change node in the same transaction.
"""

import logging

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from cluster.coordinator.cluster_store import (
    NO_VERSION,
    ConfigKind,
    ConfigOwner,
    OnChange,
    StoredConfig,
    StoreVersion,
)
from cluster.coordinator.registry.client.change_nodes import commit_config
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs

log = logging.getLogger(__name__)


class ConfigRecords:
    """A `ConfigStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load(self, owner: ConfigOwner, on_change: OnChange | None = None) -> StoredConfig:
        path = f"{paths.CONFIG}/{_entity_path(owner)}"
        if self._client.exists(path, watch=self._watch(on_change)) is None:
            return StoredConfig({}, NO_VERSION)
        try:
            document, stat = self._client.get(path)
        except NoNodeError:  # deleted in between; the watch has fired
            return StoredConfig({}, NO_VERSION)
        except NoAuthError:
            return StoredConfig({}, NO_VERSION, f"{path} may not be read")
        version = StoreVersion(stat.version)
        try:
            return StoredConfig(znodes.decode_entity_config(document), version)
        except ValueError as error:
            return StoredConfig({}, version, f"{path}: {error}")

    def write(
        self, owner: ConfigOwner, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
    ) -> bool:
        client, entity_path = self._client, _entity_path(owner)
        path, document = f"{paths.CONFIG}/{entity_path}", znodes.encode_entity_config(texts)
        writes = client.transaction()
        if version == NO_VERSION:
            client.ensure_path(path.rpartition("/")[0])
            writes.create(path, document)
        else:
            writes.set_data(path, document, version=version)
        try:
            commit_config(client, writes, entity_path, wall_ms)
        except (BadVersionError, NodeExistsError, NoNodeError):
            return False
        return True

    def load_all(
        self, kind: ConfigKind, on_change: OnChange | None = None
    ) -> dict[str, dict[str, str]]:
        client = self._client
        client.get_children(paths.CONFIG_CHANGES, watch=self._watch(on_change))
        parent = f"{paths.CONFIG}/{kind}"
        answers = [
            (paths.desanitized(name), client.get_async(f"{parent}/{name}"))
            for name in client.get_children(parent)
        ]
        found = {}
        for name, answer in answers:
            try:
                texts = znodes.decode_entity_config(answer.get()[0])
            except NoNodeError:
                continue
            except (NoAuthError, ValueError) as error:
                log.warning("ignored the configs of %s/%s: %r", kind, name, error)
                continue
            if texts:
                found[name] = texts
        return found


def _entity_path(owner: ConfigOwner) -> str:
    return paths.entity_path(owner.kind, paths.DEFAULT_ENTITY if owner.name is None else owner.name)
