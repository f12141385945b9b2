"""Registrations of brokers, and their log directories, in the registry."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from cluster.coordinator.cluster_store import OnChange
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.cluster import BrokerRegistration
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.ids import BrokerEpoch, BrokerId

log = logging.getLogger(__name__)


class BrokerRecords:
    """A `BrokerStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def prepare(self) -> None:
        for path in paths.PERSISTENT_PATHS:
            if self._client.exists(path) is None:
                self._client.ensure_path(path)

    def check_free(self, broker: BrokerId) -> None:
        if self._client.exists(paths.broker(broker)) is not None:
            raise _taken(broker)

    def register(self, registration: BrokerRegistration, wall_ms: WallMs) -> BrokerEpoch:
        client = self._client
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
            raise _taken(registration.id)

    def live(self, on_change: OnChange | None = None) -> list[BrokerRegistration]:
        """A record that is not a registration is left out: one znode of another tool must not
        leave all brokers without a controller.
        """
        client = self._client
        names = client.get_children(paths.BROKER_IDS, watch=self._watch(on_change))
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

    def forget(self, broker: BrokerId) -> None:
        if self._client.exists(paths.broker(broker)) is not None:
            raise Refused(ErrorCode.invalid_request, f"Broker ID {broker} is alive: stop it before")
        try:
            self._client.delete(paths.log_directories(broker))
        except NoNodeError:
            raise Refused(
                ErrorCode.broker_id_not_registered,
                f"Broker ID {broker} is not currently registered",
            ) from None

    def log_directories(self, broker: BrokerId) -> dict[str, int] | None:
        path = paths.log_directories(broker)
        try:
            return znodes.decode_log_directories(self._client.get(path)[0])
        except NoNodeError:
            return None
        except ValueError as error:
            log.warning("ignored %s, which does not list log directories: %s", path, error)
            return None

    def write_log_directories(self, broker: BrokerId, generations: Mapping[str, int]) -> None:
        path, document = paths.log_directories(broker), znodes.encode_log_directories(generations)
        try:
            self._client.set(path, document)
        except NoNodeError:
            self._client.create(path, document, makepath=True)


def _taken(broker: BrokerId) -> UserError:
    return UserError(
        f"a broker with id {broker} is already registered in this cluster; stop it, wait until its"
        " session has expired, or choose another broker.id"
    )
