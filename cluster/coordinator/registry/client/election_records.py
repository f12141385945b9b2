"""The election of the controller in the registry."""

from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from cluster.coordinator.cluster_store import Election, OnChange, StoreVersion
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.ids import BrokerId, ControllerEpoch


class ElectionRecords:
    """An `ElectionStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def campaign(self, broker: BrokerId, wall_ms: WallMs) -> Election:
        """Claim `/controller` and raise the epoch in one transaction.

        If our own session still holds `/controller` from an earlier campaign, it is deleted first.
        """
        client = self._client
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

    def watch(self, on_change: OnChange) -> BrokerId | None:
        if self._client.exists(paths.CONTROLLER, watch=self._watch(on_change)) is None:
            return None
        try:
            document, _ = self._client.get(paths.CONTROLLER)
        except NoNodeError:
            return None
        return znodes.decode_controller(document)
