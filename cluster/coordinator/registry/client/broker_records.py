"""Registrations, elections and producer ids in the registry: blocking calls for its thread."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.cluster_store import (
    Election,
    StoreVersion,
)
from cluster.coordinator.registry.documents import paths, znodes
from cluster.coordinator.registry.documents.znodes import (
    ProducerIdBlock,
)
from cluster.model.clocks import WallMs
from cluster.model.cluster import (
    BrokerRegistration,
)
from cluster.model.errors import UserError
from cluster.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    encode_uuid,
    new_uuid,
)

log = logging.getLogger(__name__)

PRODUCER_IDS_PER_BLOCK: Final = 1000

Watch = Callable[[WatchedEvent], None]


def prepare_paths(client: KazooClient) -> None:
    """Make the persistent parents that are missing."""
    for path in paths.PERSISTENT_PATHS:
        if client.exists(path) is None:
            client.ensure_path(path)


def cluster_id(client: KazooClient) -> str:
    """The cluster's id; the first broker ever makes it. Raises UserError when it is none."""
    with suppress(NodeExistsError):
        client.create(
            paths.CLUSTER_ID, znodes.encode_cluster_id(encode_uuid(new_uuid())), makepath=True
        )
    document, _ = client.get(paths.CLUSTER_ID)
    try:
        return znodes.decode_cluster_id(document)
    except ValueError as error:
        raise UserError(f"{paths.CLUSTER_ID} in the registry: {error}") from error


def login_secret(client: KazooClient, proposed: bytes) -> bytes:
    """The secret that is stored; the first broker ever stores what it proposes. Raises UserError
    when it is none.
    """
    with suppress(NodeExistsError):
        client.create(paths.LOGIN_SECRET, znodes.encode_login_secret(proposed), makepath=True)
    document, _ = client.get(paths.LOGIN_SECRET)
    try:
        return znodes.decode_login_secret(document)
    except ValueError:
        raise UserError(
            f"{paths.LOGIN_SECRET} in the registry is no secret: delete it, and a new one is made"
        ) from None


def register_broker(
    client: KazooClient, registration: BrokerRegistration, wall_ms: WallMs
) -> BrokerEpoch:
    """Announce this broker; its epoch. Raises UserError when its id is taken by a live broker."""
    path = paths.broker(registration.id)
    document = znodes.encode_broker(registration, wall_ms)
    while True:
        with suppress(NodeExistsError):
            _, stat = client.create(path, document, ephemeral=True, include_data=True)
            return BrokerEpoch(stat.czxid)
        stat = client.exists(path)
        if stat is None:
            continue  # it was just removed with our previous session
        if stat.ephemeralOwner == client.client_id[0]:
            return BrokerEpoch(stat.czxid)  # made by an earlier try whose answer was lost
        raise UserError(
            f"a broker with id {registration.id} is already registered in this cluster;"
            " stop it, wait until its session has expired, or choose another broker.id"
        )


def live_brokers(client: KazooClient, watch: Watch | None = None) -> list[BrokerRegistration]:
    """Every registered broker that can be reached by ours; `watch` fires when one comes or goes.

    What is no registration is left out: one znode of another tool must not leave all brokers
    without a controller.
    """
    names = client.get_children(paths.BROKER_IDS, watch=watch)
    pending = [(name, client.get_async(f"{paths.BROKER_IDS}/{name}")) for name in names]
    found = []
    for name, answer in pending:
        try:
            document, stat = answer.get()
            broker_id = znodes.decode_broker_id(name)
            found.append(znodes.decode_broker(broker_id, document, BrokerEpoch(stat.czxid)))
        except NoNodeError:
            continue
        except ValueError as error:
            log.warning("%s/%s is not a broker: %s", paths.BROKER_IDS, name, error)
    return found


def load_log_directories(client: KazooClient, broker: BrokerId) -> dict[str, int] | None:
    """Generations of a broker's log directories by their ids; None where nothing is stored."""
    path = paths.log_directories(broker)
    try:
        return znodes.decode_log_directories(client.get(path)[0])
    except NoNodeError:
        return None
    except ValueError as error:
        log.warning("%s says nothing of log directories: %s", path, error)
        return None


def write_log_directories(
    client: KazooClient, broker: BrokerId, generations: Mapping[str, int]
) -> None:
    """Store the generations of a broker's log directories."""
    path, document = paths.log_directories(broker), znodes.encode_log_directories(generations)
    try:
        client.set(path, document)
    except NoNodeError:
        client.create(path, document, makepath=True)


def campaign(client: KazooClient, broker: BrokerId, wall_ms: WallMs) -> Election:
    """Try to become the controller: claim `/controller` and raise the epoch in one transaction.

    If our own session still holds `/controller` from an earlier campaign, it is deleted first.
    """
    while True:
        try:
            document, stat = client.get(paths.CONTROLLER)
            if stat.ephemeralOwner != client.client_id[0]:
                return Election(znodes.decode_controller(document))
            client.delete(paths.CONTROLLER)
        except NoNodeError:
            pass
        with suppress(NodeExistsError):
            client.create(
                paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(ControllerEpoch(0))
            )
        document, stat = client.get(paths.CONTROLLER_EPOCH)
        epoch = ControllerEpoch(znodes.decode_controller_epoch(document) + 1)
        transaction = client.transaction()
        transaction.create(
            paths.CONTROLLER, znodes.encode_controller(broker, wall_ms), ephemeral=True
        )
        transaction.set_data(
            paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), version=stat.version
        )
        results = transaction.commit()
        if not any(isinstance(result, Exception) for result in results):
            return Election(broker, epoch, StoreVersion(stat.version + 1))


def watch_controller(client: KazooClient, watch: Watch) -> BrokerId | None:
    """Who is the controller (None: nobody); `watch` fires when that changes."""
    if client.exists(paths.CONTROLLER, watch=watch) is None:
        return None
    try:
        document, _ = client.get(paths.CONTROLLER)
    except NoNodeError:
        return None
    return znodes.decode_controller(document)


def next_producer_ids(client: KazooClient, broker: BrokerId) -> range:
    """A block of producer ids that no other broker has or will have.

    Raises ValueError when there is none left, or the last block in the registry is unreadable.
    """
    path = paths.LATEST_PRODUCER_ID_BLOCK
    while True:
        version, document = None, b""
        with suppress(NoNodeError):
            document, stat = client.get(path)
            version = stat.version
        first = znodes.decode_producer_id_block(document).last + 1 if document else 0
        block = ProducerIdBlock(broker, first, first + PRODUCER_IDS_PER_BLOCK - 1)
        if first < 0 or block.last >= 2**63:
            raise ValueError(f"{path}: no producer ids after {first - 1}")
        taken = znodes.encode_producer_id_block(block)
        # Another broker that takes this block meanwhile makes this one try again.
        with suppress(BadVersionError, NodeExistsError, NoNodeError):
            if version is None:
                client.create(path, taken)
            else:
                client.set(path, taken, version=version)
            return range(block.first, block.last + 1)
