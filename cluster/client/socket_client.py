"""One blocking connection to one broker: a request, its answer, then the next one."""

import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from cluster.client.exchange import decode_response, encode_frame, encode_request
from cluster.client.sasl_login import log_in
from cluster.client.security import UNPROTECTED, Address, ClientSecurity, Servers
from cluster.client.socket_probe import is_tls_record, why_closed
from cluster.model.errors import PeerError, UserError
from cluster.protocol.api import ApiKey, OwnApiKey
from cluster.protocol.messages import ApiVersionsRequest

_SIZE: Final = struct.Struct(">i")
_OWN_VERSION: Final = 0
_FRAME_MAX_BYTES: Final = 100 * 1024 * 1024

SPOKEN: Final[Mapping[ApiKey, tuple[int, int]]] = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.METADATA: (4, 12),
    ApiKey.LIST_OFFSETS: (1, 7),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.FIND_COORDINATOR: (4, 6),
    ApiKey.LIST_GROUPS: (4, 5),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (1, 1),
    ApiKey.CREATE_TOPICS: (4, 7),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.ELECT_LEADERS: (1, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_FETCH: (8, 9),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.SASL_HANDSHAKE: (1, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
}
"""The versions that this client can use of each API that it uses."""


class SocketClient:
    """One connection, open from `connect` to `close`; after an error only `close` is allowed."""

    def __init__(
        self,
        connection: socket.socket,
        address: str,
        client_id: str,
        security: ClientSecurity = UNPROTECTED,
    ) -> None:
        self.security = security
        """How it is protected: what connections to other brokers of the cluster need too."""
        self._socket = connection
        self._address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, int] = {}

    @property
    def address(self) -> str:
        """Host and port that it is connected to."""
        return self._address

    @classmethod
    def connect(
        cls, servers: Servers | Sequence[Address], client_id: str, timeout_s: float = 10.0
    ) -> Self:
        """A connection to the first server that answers, logged in where they want that.

        Addresses alone are those of servers without protection. Raises UserError naming all.
        """
        addresses, security = servers if isinstance(servers, Servers) else (servers, UNPROTECTED)
        places: dict[str, list[str]] = {}
        for address in addresses:
            try:
                return cls._to(address, client_id, timeout_s, security)
            except (OSError, PeerError, UserError) as error:
                reason = _reason(error, address, security, timeout_s)
                places.setdefault(reason, []).append(f"{address[0]}:{address[1]}")
        if not places:
            raise UserError("cannot connect: no broker is known")
        reasons = [f"{', '.join(those)} ({reason})" for reason, those in places.items()]
        raise UserError(f"cannot connect to {', '.join(reasons)}")

    @classmethod
    def _to(
        cls, address: Address, client_id: str, timeout_s: float, security: ClientSecurity
    ) -> Self:
        host, port = address
        connection = socket.create_connection(address, timeout_s)
        try:
            if security.protocol.is_encrypted:
                connection = security.tls_context().wrap_socket(connection, server_hostname=host)
            client = cls(connection, f"{host}:{port}", client_id, security)
            client._negotiate()
            if security.protocol.has_sasl:
                log_in(client.call, security)
        except BaseException:
            connection.close()
            raise
        return client

    def serves(self, api_key: ApiKey) -> bool:
        """Whether the broker has a version of that API which this client can use."""
        return api_key in self._versions

    def version_of(self, api_key: ApiKey) -> int:
        """The version in which `call` sends that API; -1 if the broker does not serve it."""
        return self._versions.get(api_key, -1)

    def call(self, api_key: ApiKey, request: Any) -> Any:
        """Send a request and return the response.

        Raises UserError if the broker does not serve that API, or if the connection is lost.
        """
        version = self._versions.get(api_key)
        if version is None:
            raise UserError(f"the broker at {self._address} does not serve {api_key.name}")
        try:
            return self._exchange(api_key, version, request)
        except OSError as error:
            hint = ""
            if not self.security.protocol.has_sasl and isinstance(error, ConnectionResetError):
                hint = "; if it wants a login, give --command-config FILE, with a sasl.mechanism"
            raise UserError(f"lost the broker at {self._address}: {error}{hint}") from error
        except PeerError as error:
            raise UserError(f"the broker at {self._address} answers wrongly: {error}") from error

    def send(self, api_key: ApiKey | OwnApiKey, version: int, body: bytes) -> int:
        """Send a request that is already encoded, without waiting; returns its correlation id.

        Only for versions whose header has no tags. Raises UserError if the connection is lost.
        """
        self._correlation_id += 1
        frame = encode_frame(api_key, version, self._correlation_id, self._client_id, body)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise UserError(f"lost the broker at {self._address}: {error}") from error
        return self._correlation_id

    def call_own(self, api_key: OwnApiKey, body: bytes, purpose: str) -> bytes:
        """Send a request that Kafka does not have, and return the body of the answer.

        Raises UserError where the broker does not answer, as a broker of Kafka: only Milena's
        brokers have the `purpose`.
        """
        asked = self.send(api_key, _OWN_VERSION, body)
        try:
            return self.receive(asked)
        except UserError as problem:
            raise UserError(f"{problem}; only Milena's brokers {purpose}") from problem

    def receive(self, correlation_id: int) -> bytes:
        """The body of the next response, which must be the one to this request.

        Raises UserError if the connection is lost, or another response comes.
        """
        try:
            frame = self._receive_frame()
        except OSError as error:
            raise UserError(f"lost the broker at {self._address}: {error}") from error
        except PeerError as error:
            raise UserError(f"the broker at {self._address} answers wrongly: {error}") from error
        answered = int.from_bytes(frame[: _SIZE.size], "big", signed=True)
        if answered != correlation_id:
            raise UserError(f"the broker at {self._address} answers out of order")
        return frame[_SIZE.size :]

    def wait_for_answers(self, timeout_s: float) -> None:
        """Wait so long for each answer from now on; at first as long as for the connection."""
        self._socket.settimeout(timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _negotiate(self) -> None:
        asked = ApiVersionsRequest(client_software_name="", client_software_version="")
        told = self._exchange(ApiKey.API_VERSIONS, 0, asked)
        offered = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
        for key, (first, last) in SPOKEN.items():
            lowest, highest = offered.get(key, (1, 0))
            if max(lowest, first) <= min(highest, last):
                self._versions[key] = min(highest, last)

    def _exchange(self, api_key: ApiKey, version: int, request: Any) -> Any:
        self._correlation_id += 1
        self._socket.sendall(
            encode_request(api_key, version, self._correlation_id, self._client_id, request)
        )
        return decode_response(api_key, version, self._correlation_id, self._receive_frame())

    def _receive_frame(self) -> bytes:
        head = self._receive(_SIZE.size)
        if is_tls_record(head):
            raise ConnectionResetError("it answers by TLS")
        (size,) = _SIZE.unpack(head)
        if not 0 <= size <= _FRAME_MAX_BYTES:
            raise PeerError(f"a response of {size} bytes")
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionResetError("it closed the connection")
            received += part
        return bytes(received)


def _reason(error: Exception, address: Address, security: ClientSecurity, timeout_s: float) -> str:
    """Why a broker cannot be used, in words that say what to do where that is known."""
    is_wrong_protocol = isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER"
    if is_wrong_protocol or isinstance(error, ConnectionResetError | ssl.SSLEOFError):
        return why_closed(address, security, timeout_s)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
