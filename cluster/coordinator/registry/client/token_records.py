"""Delegation tokens in the registry, where Kafka keeps them.

    /delegation_token/tokens/HNUgkBK...                         {"version":3,"owner":...}
    /delegation_token/token_changes/token_change_0000000007     HNUgkBK...

The secret of a token is not stored: it is computed from the token's id.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError

from cluster.coordinator.cluster_store import OnChange, TokenNews
from cluster.coordinator.registry.client.change_nodes import commit_with_change
from cluster.coordinator.registry.client.watching import Watch
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken

log = logging.getLogger(__name__)


class TokenRecords:
    """A `TokenStore`."""

    def __init__(self, client: KazooClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def load(self, seen: frozenset[str] | None, on_change: OnChange | None = None) -> TokenNews:
        client = self._client
        if seen is None:
            client.ensure_path(paths.TOKEN_CHANGES)
            client.ensure_path(paths.TOKENS)
        names = frozenset(client.get_children(paths.TOKEN_CHANGES, watch=self._watch(on_change)))
        changed = None if seen is None else _changed(client, names - seen)
        if changed is None:
            return TokenNews(_read(client, client.get_children(paths.TOKENS)), names, is_whole=True)
        return TokenNews(_read(client, changed), names, is_whole=False)

    def write(self, token: DelegationToken, wall_ms: WallMs) -> None:
        path, document = f"{paths.TOKENS}/{token.token_id}", znodes.encode_token(token)
        writes = self._client.transaction()
        writes.set_data(path, document)
        try:
            self._commit(writes, token.token_id, wall_ms)
        except NoNodeError:
            self._client.ensure_path(paths.TOKENS)
            writes = self._client.transaction()
            writes.create(path, document)
            with suppress(NodeExistsError):  # its id is new: only this very call may have made it
                self._commit(writes, token.token_id, wall_ms)

    def remove(self, token_id: str, wall_ms: WallMs) -> None:
        writes = self._client.transaction()
        writes.delete(f"{paths.TOKENS}/{token_id}")
        with suppress(NoNodeError):  # another broker has removed and announced it
            self._commit(writes, token_id, wall_ms)

    def _commit(self, writes: TransactionRequest, token_id: str, wall_ms: WallMs) -> None:
        change = token_id.encode()
        commit_with_change(self._client, writes, paths.TOKEN_CHANGE_PREFIX, change, wall_ms)


def _changed(client: KazooClient, names: Iterable[str]) -> set[str] | None:
    """The ids that change nodes name; None if one cannot be read, since it may name any token."""
    answers = [(name, client.get_async(f"{paths.TOKEN_CHANGES}/{name}")) for name in sorted(names)]
    changed = set()
    for name, answer in answers:
        try:
            token_id = answer.get()[0].decode()
        except NoNodeError:
            return None  # removed before it was read
        except (NoAuthError, ValueError) as error:
            log.warning("%s/%s: %r; all tokens are read again", paths.TOKEN_CHANGES, name, error)
            return None
        if not paths.is_node_name(token_id):
            return None
        changed.add(token_id)
    return changed


def _read(client: KazooClient, ids: Iterable[str]) -> dict[str, DelegationToken | None]:
    found: dict[str, DelegationToken | None] = {}
    answers = [(token_id, client.get_async(f"{paths.TOKENS}/{token_id}")) for token_id in ids]
    for token_id, answer in answers:
        try:
            found[token_id] = znodes.decode_token(answer.get()[0])
        except NoNodeError:
            found[token_id] = None
        except (NoAuthError, ValueError) as error:
            log.warning("a delegation token cannot be read: %r", error)
            found[token_id] = None
    return found
