"""Records of TLS 1.3 that no library writes: a client's own encryption (RFC 8446, chapters 4-7)."""

import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

APPLICATION_DATA = 23
HANDSHAKE = 22
KEY_UPDATE = b"\x18\x00\x00\x01"


def client_secret(key_log: Path) -> bytes:
    """The first secret of a client's data, from the file of `SSLContext.keylog_filename`."""
    for line in key_log.read_text().splitlines():
        if line.startswith("CLIENT_TRAFFIC_SECRET_0 "):
            return bytes.fromhex(line.split()[2])
    raise ValueError("there is no such secret yet")


class RecordWriter:
    """What a client sends after its handshake with TLS_AES_256_GCM_SHA384."""

    def __init__(self, secret: bytes) -> None:
        self._use(secret)

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._key = AESGCM(self._expanded("key", 32))
        self._iv = int.from_bytes(self._expanded("iv", 12), "big")
        self._sequence = 0

    def _expanded(self, label: str, size: int) -> bytes:
        name = b"tls13 " + label.encode()
        info = struct.pack(">HB", size, len(name)) + name + b"\0"
        return HKDFExpand(hashes.SHA384(), size, info).derive(self._secret)

    def record(self, content_type: int, content: bytes, padding: int = 0) -> bytes:
        """One encrypted record."""
        size = len(content) + padding + 17
        header = struct.pack(">BHH", APPLICATION_DATA, 0x0303, size)
        nonce = (self._iv ^ self._sequence).to_bytes(12, "big")
        self._sequence += 1
        return header + self._key.encrypt(
            nonce, content + bytes([content_type]) + bytes(padding), header
        )

    def key_update(self, *, asks: bool = False, padding: int = 0) -> bytes:
        """A record that changes the client's keys, and may ask the server to change its own."""
        record = self.record(HANDSHAKE, KEY_UPDATE + bytes([asks]), padding)
        self._use(self._expanded("traffic upd", 48))
        return record
