"""Encrypts passwords for the registry, in Kafka's form. Pure, apart from the salts.

`keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,
iterations:4096,salt:...,initializationVector:...,passwordLength:8,encryptedPassword:...`, bytes in
base64 (Kafka: `EncryptingPasswordEncoder`). The key is derived from the secret by PBKDF2, with a
new salt for each password.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

_CBC: Final = "AES/CBC/PKCS5Padding"
_GCM: Final = "AES/GCM/NoPadding"
_SALT_BYTES: Final = 256
_VECTOR_BYTES: Final = {_CBC: 16, _GCM: 12}
_TAG_BITS: Final = 128
_DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
_HASHES: Final = {
    "PBKDF2WithHmacSHA1": "sha1",
    "PBKDF2WithHmacSHA256": "sha256",
    _DEFAULT_KEY_FACTORY: "sha512",
}
_KEY_BITS: Final = (128, 192, 256)
_ITERATIONS_MAX: Final = 10_000_000
"""A larger number, which somebody may have stored, would occupy the broker for seconds."""


class EncoderOptions(NamedTuple):
    """How new passwords are encrypted; encrypted ones contain their own options."""

    key_factory: str
    """Empty for the default."""
    cipher: str
    key_bits: int
    iterations: int


class PasswordEncoder:
    """Encrypts with one secret, and decrypts what was encrypted with it."""

    def __init__(
        self,
        secret: str,
        options: EncoderOptions,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._secret = secret.encode()
        self._options = options
        self._random_bytes = random_bytes

    def encoded(self, password: str) -> str:
        """The encrypted text."""
        key_factory, cipher, key_bits, iterations = self._options
        salt = self._random_bytes(_SALT_BYTES)
        vector = self._random_bytes(_VECTOR_BYTES[cipher])
        key = self._key(key_factory or _DEFAULT_KEY_FACTORY, salt, iterations, key_bits)
        fields = {
            "keyFactoryAlgorithm": key_factory or _DEFAULT_KEY_FACTORY,
            "cipherAlgorithm": cipher,
            "keyLength": str(key_bits),
            "iterations": str(iterations),
            "salt": _base64(salt),
            "initializationVector": _base64(vector),
            "passwordLength": str(_length(password)),
            "encryptedPassword": _base64(_encrypted(cipher, key, vector, password.encode())),
        }
        if cipher == _GCM:
            fields["authenticationTagLength"] = str(_TAG_BITS)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decoded(self, text: str) -> str:
        """The password in an encrypted text.

        Raises ValueError for another secret or any other text; its message contains neither.
        """
        fields = dict(_field(part) for part in text.split(","))
        try:
            key_bits, iterations = int(fields["keyLength"]), int(fields["iterations"])
            if key_bits not in _KEY_BITS or not 1 <= iterations <= _ITERATIONS_MAX:
                raise ValueError("not of a kind that can be decrypted")
            key = self._key(
                fields["keyFactoryAlgorithm"], _bytes(fields, "salt"), iterations, key_bits
            )
            password = _decrypted(fields, key).decode()
            length = int(fields["passwordLength"])
        except (KeyError, ValueError, InvalidTag):
            raise ValueError("it was not encrypted with this secret") from None
        if _length(password) != length:
            raise ValueError("it was not encrypted with this secret")
        return password

    def _key(self, key_factory: str, salt: bytes, iterations: int, key_bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(
            _HASHES[key_factory], self._secret, salt, iterations, key_bits // 8
        )


def _encrypted(cipher: str, key: bytes, vector: bytes, plain: bytes) -> bytes:
    if cipher == _GCM:
        return AESGCM(key).encrypt(vector, plain, None)
    padder = PKCS7(AES.block_size).padder()
    encryptor = Cipher(AES(key), CBC(vector)).encryptor()
    return encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()


def _decrypted(fields: Mapping[str, str], key: bytes) -> bytes:
    """Raises KeyError, ValueError or InvalidTag."""
    vector, encrypted = _bytes(fields, "initializationVector"), _bytes(fields, "encryptedPassword")
    match fields["cipherAlgorithm"]:
        case "AES/GCM/NoPadding":
            return AESGCM(key).decrypt(vector, encrypted, None)
        case "AES/CBC/PKCS5Padding":
            decryptor = Cipher(AES(key), CBC(vector)).decryptor()
            padded = decryptor.update(encrypted) + decryptor.finalize()
            unpadder = PKCS7(AES.block_size).unpadder()
            return unpadder.update(padded) + unpadder.finalize()
        case _:
            raise ValueError("not of a kind that can be decrypted")


def _length(password: str) -> int:
    """The length in UTF-16 code units, as in Java."""
    return len(password.encode("utf-16-le", "surrogatepass")) // 2


def _field(part: str) -> tuple[str, str]:
    name, _, value = part.partition(":")
    return name.strip(), value.strip()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes(fields: Mapping[str, str], name: str) -> bytes:
    return base64.b64decode(fields[name], validate=True)
