"""SCRAM credentials in the registry, where Kafka keeps them.

    /config/users/alice   {"version":1,"config":{"SCRAM-SHA-512":"salt=...,stored_key=...,..."}}

The quotas of a user are in the same document (`quota_records.py`).
"""

import logging
from collections.abc import Mapping

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from cluster.coordinator.cluster_store import Credentials, OnChange
from cluster.coordinator.registry.client.quota_records import merge_config
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.quotas import QuotaEntity
from cluster.model.scram import MECHANISMS, ScramCredential, credential_text, parse_credential
from cluster.model.security import SaslMechanism

log = logging.getLogger(__name__)


class CredentialRecords:
    """A `CredentialStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load(self, on_change: OnChange | None = None) -> Credentials:
        client = self._client
        client.get_children(paths.CONFIG_CHANGES, watch=self._watch(on_change))
        parent = f"{paths.CONFIG}/{paths.USER_CONFIGS}"
        answers = [
            (paths.desanitized(name), client.get_async(f"{parent}/{name}"))
            for name in client.get_children(parent)
            if name != paths.DEFAULT_ENTITY
        ]
        found: Credentials = {}
        for user, answer in answers:
            try:
                texts = znodes.decode_entity_config(answer.get()[0])
            except NoNodeError:
                continue
            except (NoAuthError, ValueError) as error:
                log.warning("ignored the credentials of user %s: %r", user, error)
                continue
            own = {
                mechanism: credential
                for mechanism in MECHANISMS
                if (credential := _credential(user, mechanism, texts)) is not None
            }
            if own:
                found[user] = own
        return found

    def alter(
        self,
        user: str,
        changes: Mapping[SaslMechanism, ScramCredential | None],
        wall_ms: WallMs,
    ) -> None:
        texts = {
            mechanism.value: None if credential is None else credential_text(credential)
            for mechanism, credential in changes.items()
        }
        merge_config(self._client, QuotaEntity(user, None), texts, wall_ms)


def _credential(
    user: str, mechanism: SaslMechanism, texts: Mapping[str, str]
) -> ScramCredential | None:
    text = texts.get(mechanism)
    if text is None:
        return None
    try:
        return parse_credential(text)
    except ValueError as error:
        log.warning("ignored the %s credential of user %s: %s", mechanism, user, error)
        return None
