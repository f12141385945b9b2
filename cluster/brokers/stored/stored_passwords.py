"""Passwords among the stored settings: encrypted in the store, plain in this broker's memory.

Only a broker's own values may be passwords, and only with `password.encoder.secret`. Passwords
encrypted with `password.encoder.old.secret` can still be read; they are encrypted again when the
broker starts (Kafka: `DynamicBrokerConfig.maybeReEncodePasswords`). Pure but for the salts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.config import broker
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.settings import Settings
from cluster.model.errors import ErrorCode, Refused

if TYPE_CHECKING:
    from cluster.config.password_encoder import PasswordEncoder

Texts = Mapping[str, str]


class Readable(NamedTuple):
    """Stored values with plain passwords, and a line for each password that could not be
    decrypted.
    """

    texts: dict[str, str]
    problems: tuple[str, ...]
    are_old: bool
    """Whether some were encrypted with the old secret."""


class StoredPasswords:
    """Caches decrypted passwords, since deriving a key takes milliseconds."""

    def __init__(self, encoder: "PasswordEncoder | None", old: "PasswordEncoder | None") -> None:
        self._encoder: Final = encoder
        self._old: Final = old
        self._decoded: dict[str, str] = {}
        """Passwords by their stored text."""

    def readable(self, stored: Texts) -> Readable:
        """The values without those that cannot be decrypted."""
        texts, problems, decoded = {}, [], {}
        are_old = False
        for name, text in stored.items():
            if not BROKER_SETTINGS.is_secret(name):
                texts[name] = text
                continue
            password, is_old = self._password(text)
            if password is None:
                problems.append(f"{name} cannot be decrypted with password.encoder.secret")
                continue
            texts[name] = password
            are_old |= is_old
            if not is_old:
                decoded[text] = password
        self._decoded = decoded
        return Readable(texts, tuple(problems), are_old)

    def stored(self, texts: Texts, before: Texts) -> dict[str, str]:
        """The values to store in place of `before`; unchanged passwords keep their stored text.

        `texts` has plain passwords, or the stored text of a password that cannot be decrypted.
        Raises Refused(invalid_request) for a password if there is no secret.
        """
        return {
            name: self._stored(text, before.get(name)) if BROKER_SETTINGS.is_secret(name) else text
            for name, text in texts.items()
        }

    def _stored(self, password: str, before: str | None) -> str:
        if before is not None and password in (before, self._password(before)[0]):
            return before
        if self._encoder is None:
            raise Refused(
                ErrorCode.invalid_request,
                "Password encoder secret not configured: a password can be changed in use once the"
                " broker has password.encoder.secret",
            )
        return self._encoder.encoded(password)

    def reencrypted(self, stored: Texts) -> dict[str, str]:
        """The stored values with each readable password encrypted with the present secret."""
        readable = self.readable(stored).texts
        if self._encoder is None:
            return dict(stored)
        return {
            name: self._encoder.encoded(readable[name])
            if BROKER_SETTINGS.is_secret(name) and name in readable
            else text
            for name, text in stored.items()
        }

    def _password(self, text: str) -> tuple[str | None, bool]:
        """The password, if it can be decrypted, and whether it needed the old secret."""
        if text in self._decoded:
            return self._decoded[text], False
        for encoder in (self._encoder, self._old):
            if encoder is None:
                continue
            try:
                return encoder.decoded(text), encoder is not self._encoder
            except ValueError:
                continue
        return None, False


def stored_passwords(settings: Settings) -> StoredPasswords:
    secret = settings[broker.PASSWORD_ENCODER_SECRET]
    old = settings[broker.PASSWORD_ENCODER_OLD_SECRET]
    if secret is None and old is None:
        return StoredPasswords(None, None)
    # Imported only now: ciphers take long to load, and most clusters have no such secret.
    from cluster.config.password_encoder import EncoderOptions, PasswordEncoder

    options = EncoderOptions(
        settings[broker.PASSWORD_ENCODER_KEYFACTORY_ALGORITHM],
        settings[broker.PASSWORD_ENCODER_CIPHER_ALGORITHM],
        int(settings[broker.PASSWORD_ENCODER_KEY_LENGTH]),
        settings[broker.PASSWORD_ENCODER_ITERATIONS],
    )
    return StoredPasswords(
        None if secret is None else PasswordEncoder(secret, options),
        None if old is None else PasswordEncoder(old, options),
    )
