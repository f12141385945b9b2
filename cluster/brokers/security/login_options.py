"""Derives from a broker's settings how clients of each listener log in."""

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.brokers.security.exchange import Exchange
from cluster.brokers.security.key_sets import KeySet, KeySetRules
from cluster.brokers.security.login import MechanismRules
from cluster.brokers.security.logins import ListenerLogins
from cluster.brokers.security.oauth_login import OAuthExchange, Validator
from cluster.brokers.security.plain_login import PlainExchange
from cluster.brokers.security.scram_login import ScramExchange, ScramNames
from cluster.brokers.security.token_claims import ClaimRules
from cluster.brokers.security.unsecured_tokens import UnsecuredTokens, rules_of
from cluster.config import broker as keys
from cluster.config.jaas import jaas_key, login_module, plain_users
from cluster.config.listeners import client_listeners, of_listener, of_mechanism
from cluster.config.setting import SettingError
from cluster.config.settings import Settings
from cluster.model.scram import MECHANISMS as SCRAM_MECHANISMS
from cluster.model.security import SaslMechanism

_KNOWN: Final = tuple(SaslMechanism)
_SIGNED: Final = "OAuthBearerValidatorCallbackHandler"
"""The suffix of Kafka's class names for validators of signed tokens."""

NewKeySet = Callable[[KeySetRules], KeySet]


class LoginOptions:
    """One per broker; `of` is called again after each change of the settings."""

    def __init__(self, scram_names: ScramNames, new_key_set: NewKeySet) -> None:
        self._scram_names = scram_names
        self._new_key_set = new_key_set
        self.secret = secrets.token_bytes(32)
        """The secret that salts of unknown users are derived from."""
        self._key_sets: dict[KeySetRules, KeySet] = {}

    def of(self, settings: Settings) -> Mapping[str, ListenerLogins]:
        """The listeners whose clients log in by SASL. Raises SettingError.

        Starts fetching the key sets that they need, and stops fetching those that are no longer
        needed.
        """
        before, self._key_sets = self._key_sets, {}
        kept = before.copy()
        try:
            listeners = {
                listener.name: self._of_listener(settings, listener.name, kept)
                for listener in client_listeners(settings)
                if listener.protocol.has_sasl
            }
        except SettingError:
            self._key_sets = before
            raise
        for rules, key_set in self._key_sets.items():
            if rules not in before:
                key_set.begin()
        for rules, key_set in before.items():
            if rules not in self._key_sets:
                key_set.end()
        return listeners

    def end(self) -> None:
        """Stop fetching keys."""
        for key_set in self._key_sets.values():
            key_set.end()

    def _of_listener(
        self, settings: Settings, name: str, kept: Mapping[KeySetRules, KeySet]
    ) -> ListenerLogins:
        own = of_listener(settings, name)
        enabled = own[keys.SASL_ENABLED_MECHANISMS]
        mechanisms = [
            SaslMechanism(each) for each in enabled if each in _KNOWN
        ]  # GSSAPI is not supported
        return ListenerLogins(
            {
                mechanism.value: MechanismRules(
                    self._starter(settings, name, mechanism, kept),
                    of_mechanism(settings, name, mechanism)[keys.CONNECTIONS_MAX_REAUTH_MS],
                )
                for mechanism in mechanisms
            },
            own[keys.SASL_SERVER_MAX_RECEIVE_SIZE],
        )

    def _starter(
        self,
        settings: Settings,
        listener: str,
        mechanism: SaslMechanism,
        kept: Mapping[KeySetRules, KeySet],
    ) -> Callable[[], Exchange]:
        if mechanism in SCRAM_MECHANISMS:
            return partial(self._scram, mechanism)
        module = login_module(settings, listener, mechanism)
        if mechanism is SaslMechanism.OAUTHBEARER:
            options = {} if module is None else module.options
            own = of_mechanism(settings, listener, mechanism)
            return partial(
                OAuthExchange, self._validator(own, options, jaas_key(listener, mechanism), kept)
            )
        passwords = {} if module is None else plain_users(module)
        return partial(PlainExchange, passwords)

    def _scram(self, mechanism: SaslMechanism) -> ScramExchange:
        return ScramExchange(mechanism, self._scram_names, self.secret, _new_nonce)

    def _validator(
        self,
        own: Settings,
        options: Mapping[str, str],
        key: str,
        kept: Mapping[KeySetRules, KeySet],
    ) -> Validator:
        """The validator for the tokens of one listener; `key` names its login module."""
        url = own[keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL]
        handler = own[keys.SASL_SERVER_CALLBACK_HANDLER_CLASS] or ""
        if url is None:
            if handler.endswith(_SIGNED) and "Unsecured" not in handler:
                raise SettingError(
                    f"sasl.oauthbearer.jwks.endpoint.url is missing: {_SIGNED} checks tokens by the"
                    " keys that are there"
                )
            try:
                return UnsecuredTokens(rules_of(options))
            except ValueError:
                raise SettingError(
                    f"{key} is not valid: unsecuredValidatorAllowableClockSkewMs is a number", key
                ) from None
        rules = KeySetRules(
            url,
            own[keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS],
            own[keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS],
            own[keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS],
        )
        key_set = kept.get(rules) or self._key_sets.get(rules) or self._new_key_set(rules)
        self._key_sets[rules] = key_set
        # imported on demand: most clusters use no tokens, and the import takes long
        from cluster.brokers.security.signed_tokens import SignedTokens

        audiences = own[keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE]
        return SignedTokens(
            key_set.find,
            ClaimRules(
                own[keys.SASL_OAUTHBEARER_SUB_CLAIM_NAME],
                own[keys.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME],
                clock_skew_ms=1_000 * own[keys.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS],
                needs_issue_time=True,
            ),
            audiences,
            own[keys.SASL_OAUTHBEARER_EXPECTED_ISSUER],
        )


def _new_nonce() -> str:
    return secrets.token_urlsafe(24)
