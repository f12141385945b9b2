"""Configs of brokers and groups in the registry, as Kafka keeps them: blocking calls.

    /config/brokers/2                        {"version":1,"config":{"log.segment.bytes":"1048576"}}
    /config/brokers/<default>                what holds for brokers without a value of their own
    /config/groups/billing                   {"version":1,"config":{...}}
    /config/changes/config_change_0000000007 {"version":2,"entity_path":"brokers/2"}

Whoever changes a config announces it by a change node, after the config is written.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.cluster_store import (
    NO_VERSION,
    ChangedTopics,
    StoredConfig,
    StoreVersion,
)
from cluster.coordinator.registry.client.change_nodes import add_change
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.ids import BrokerId

log = logging.getLogger(__name__)

_TOPIC_PREFIX: Final = f"{paths.TOPIC_CONFIGS}/"

Watch = Callable[[WatchedEvent], None]


def load_broker_config(
    client: KazooClient, broker: BrokerId | None, watch: Watch | None = None
) -> StoredConfig:
    """What is stored for one broker, or for all (None).

    `watch` fires once when that changes after this has read it, announced by a change node or not.
    """
    return _load(client, _broker_path(broker), watch)


def write_broker_config(
    client: KazooClient,
    broker: BrokerId | None,
    texts: dict[str, str],
    version: StoreVersion,
    wall_ms: WallMs,
) -> bool:
    """Replace what is stored for one broker, or for all (None), and announce it.

    False where somebody has changed it since it was read as `version`; then nothing is written.
    """
    return _write(client, _broker_path(broker), texts, version, wall_ms)


def load_group_configs(
    client: KazooClient, watch: Watch | None = None
) -> dict[str, dict[str, str]]:
    """What is stored for each group that has configs of its own, by group id.

    `watch` fires once when a config of anything is changed after this has read them.
    """
    client.get_children(paths.CONFIG_CHANGES, watch=watch)
    parent = f"{paths.CONFIG}/{paths.GROUP_CONFIGS}"
    answers = [
        (paths.desanitized(name), client.get_async(f"{parent}/{name}"))
        for name in client.get_children(parent)
    ]
    found = {}
    for group, answer in answers:
        try:
            texts = znodes.decode_entity_config(answer.get()[0])
        except NoNodeError:
            continue
        except (NoAuthError, ValueError) as error:
            log.warning("no configs of group %s: %r", group, error)
            continue
        if texts:
            found[group] = texts
    return found


def load_group_config(client: KazooClient, group: str) -> StoredConfig:
    """What is stored for one group."""
    return _load(client, _group_path(group), None)


def write_group_config(
    client: KazooClient, group: str, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
) -> bool:
    """Replace what is stored for one group, and announce it.

    False where somebody has changed it since it was read as `version`; then nothing is written.
    """
    return _write(client, _group_path(group), texts, version, wall_ms)


def changed_topics(
    client: KazooClient, after: int | None, watch: Watch | None = None
) -> ChangedTopics:
    """The topics of which change nodes later than the one numbered `after` say that they have other
    configs; `watch` fires once at the next change of any config. None: look for the last one only.
    """
    names = sorted(client.get_children(paths.CONFIG_CHANGES, watch=watch))
    numbered = list(_numbered(names))
    last = max([-1 if after is None else after, *(number for number, _ in numbered)])
    new = [] if after is None else [name for number, name in numbered if number > after]
    answers = [(name, client.get_async(f"{paths.CONFIG_CHANGES}/{name}")) for name in new]
    topics = set()
    for name, answer in answers:
        try:
            entity_path = znodes.decode_config_change(answer.get()[0])
        except NoNodeError:
            continue  # removed for its age: whoever needs it has seen it long ago
        except (NoAuthError, ValueError) as error:
            log.warning("%s/%s is left out: %r", paths.CONFIG_CHANGES, name, error)
            continue
        if entity_path.startswith(_TOPIC_PREFIX):
            topics.add(entity_path.removeprefix(_TOPIC_PREFIX))
    return ChangedTopics(last, frozenset(topics))


def announce(client: KazooClient, entity_path: str, wall_ms: WallMs) -> None:
    """Notify every broker that a config has changed; remove old change nodes."""
    add_change(
        client, paths.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), wall_ms
    )


def _load(client: KazooClient, path: str, watch: Watch | None) -> StoredConfig:
    if client.exists(path, watch=watch) is None:
        return StoredConfig({}, NO_VERSION)
    try:
        document, stat = client.get(path)
    except NoNodeError:  # deleted in between; the watch has fired
        return StoredConfig({}, NO_VERSION)
    except NoAuthError:
        return StoredConfig({}, NO_VERSION, f"{path} may not be read")
    version = StoreVersion(stat.version)
    try:
        return StoredConfig(znodes.decode_entity_config(document), version)
    except ValueError as error:
        return StoredConfig({}, version, f"{path}: {error}")


def _write(
    client: KazooClient, path: str, texts: dict[str, str], version: StoreVersion, wall_ms: WallMs
) -> bool:
    document = znodes.encode_entity_config(texts)
    try:
        if version == NO_VERSION:
            client.create(path, document, makepath=True)
        else:
            client.set(path, document, version=version)
    except (BadVersionError, NodeExistsError, NoNodeError):
        return False
    announce(client, path.removeprefix(f"{paths.CONFIG}/"), wall_ms)
    return True


def _numbered(names: list[str]) -> Iterator[tuple[int, str]]:
    """Change nodes with their numbers; whatever else somebody has put there is left out."""
    prefix = paths.CONFIG_CHANGE_PREFIX.rpartition("/")[2]
    for name in names:
        number = name.removeprefix(prefix)
        if name.startswith(prefix) and number.isdecimal() and number.isascii():
            yield int(number), name


def _broker_path(broker: BrokerId | None) -> str:
    name = paths.DEFAULT_ENTITY if broker is None else str(broker)
    return paths.entity_config(paths.BROKER_CONFIGS, name)


def _group_path(group: str) -> str:
    return paths.entity_config(paths.GROUP_CONFIGS, group)
