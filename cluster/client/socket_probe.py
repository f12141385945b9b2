"""Why a broker closes a connection without an answer: found out by another connection."""

import socket
import ssl
import struct
from typing import Final

from cluster.client.exchange import encode_request
from cluster.client.security import Address, ClientSecurity
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import ApiVersionsRequest

_PROBE_MAX_S: Final = 2.0
_TLS_RECORD: Final = b"\x15\x03"
"""How the answer to a request begins where TLS is spoken: an alert (RFC 8446)."""
_RESPONSE_MAX_BYTES: Final = 1 << 20
LIMITED: Final = (
    "it closed the connection: its log says why, such as too many from here"
    " (connection_creation_rate, max.connections.per.ip)"
)


def why_closed(address: Address, security: ClientSecurity, timeout_s: float) -> str:
    """What may be the matter, and what to do; for a connection that was made as `security` says."""
    timeout_s = min(timeout_s, _PROBE_MAX_S)
    if security.protocol.is_encrypted:
        if _answers_without_tls(address, timeout_s):
            return "this listener has no TLS: state another security.protocol"
    elif _answers_tls(address, timeout_s):
        return (
            "this listener speaks TLS: give --command-config FILE, whose security.protocol is SSL"
            " or SASL_SSL"
        )
    return LIMITED


def is_tls_record(data: bytes) -> bool:
    """Whether what came instead of an answer is a record of TLS."""
    return data.startswith(_TLS_RECORD)


def _answers_tls(address: Address, timeout_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout_s) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)
    except OSError:
        return False
    return True


def _answers_without_tls(address: Address, timeout_s: float) -> bool:
    request = ApiVersionsRequest(client_software_name="", client_software_version="")
    try:
        with socket.create_connection(address, timeout_s) as connection:
            connection.sendall(encode_request(ApiKey.API_VERSIONS, 0, 1, "milena", request))
            head = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    if len(head) < 8:
        return False
    size: int
    correlation_id: int
    size, correlation_id = struct.unpack(">ii", head)
    return correlation_id == 1 and 0 < size < _RESPONSE_MAX_BYTES
