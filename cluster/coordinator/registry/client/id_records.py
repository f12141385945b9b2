"""The cluster's id, its login secret and its producer ids in the registry."""

from contextlib import suppress
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from cluster.coordinator.registry.documents import paths, znodes
from cluster.coordinator.registry.documents.znodes import ProducerIdBlock
from cluster.model.errors import UserError
from cluster.model.ids import BrokerId, encode_uuid, new_uuid

PRODUCER_IDS_PER_BLOCK: Final = 1000


class IdRecords:
    """An `IdStore`."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def cluster_id(self) -> str:
        with suppress(NodeExistsError):
            self._client.create(
                paths.CLUSTER_ID, znodes.encode_cluster_id(encode_uuid(new_uuid())), makepath=True
            )
        document, _ = self._client.get(paths.CLUSTER_ID)
        try:
            return znodes.decode_cluster_id(document)
        except ValueError as error:
            raise UserError(f"{paths.CLUSTER_ID} in the registry: {error}") from error

    def login_secret(self, proposed: bytes) -> bytes:
        with suppress(NodeExistsError):
            document = znodes.encode_login_secret(proposed)
            self._client.create(paths.LOGIN_SECRET, document, makepath=True)
        document, _ = self._client.get(paths.LOGIN_SECRET)
        try:
            return znodes.decode_login_secret(document)
        except ValueError:
            raise UserError(
                f"{paths.LOGIN_SECRET} in the registry is not a secret: delete it, and a new one"
                " is made"
            ) from None

    def next_broker_id(self, reserved_max: int) -> int:
        """The version of the node grows with each write, as in Kafka (`generateBrokerId`)."""
        self._client.ensure_path(paths.BROKER_SEQUENCE_ID)
        return int(reserved_max + self._client.set(paths.BROKER_SEQUENCE_ID, b"").version)

    def next_producer_ids(self, broker: BrokerId) -> range:
        """Raises ValueError when there is none left, or the last block cannot be read."""
        path = paths.LATEST_PRODUCER_ID_BLOCK
        while True:
            version, document = None, b""
            with suppress(NoNodeError):
                document, stat = self._client.get(path)
                version = stat.version
            first = znodes.decode_producer_id_block(document).last + 1 if document else 0
            block = ProducerIdBlock(broker, first, first + PRODUCER_IDS_PER_BLOCK - 1)
            if first < 0 or block.last >= 2**63:
                raise ValueError(f"{path}: no producer ids after {first - 1}")
            taken = znodes.encode_producer_id_block(block)
            # If another broker takes this block meanwhile, try again with the next one.
            with suppress(BadVersionError, NodeExistsError, NoNodeError):
                if version is None:
                    self._client.create(path, taken)
                else:
                    self._client.set(path, taken, version=version)
                return range(block.first, block.last + 1)
