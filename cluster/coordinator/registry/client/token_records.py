"""Delegation tokens in the registry, where Kafka keeps them: blocking calls.

    /delegation_token/tokens/HNUgkBK...                         {"version":3,"owner":...}
    /delegation_token/token_changes/token_change_0000000007     HNUgkBK...

A token's secret is not there: it is computed from its id.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.cluster_store import TokenNews
from cluster.coordinator.registry.client.change_nodes import add_change
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken

log = logging.getLogger(__name__)

Watch = Callable[[WatchedEvent], None]


def load_tokens(
    client: KazooClient, seen: frozenset[str] | None, watch: Watch | None = None
) -> TokenNews:
    """All tokens, or where `seen` names the change nodes of an earlier call, those that have
    changed; `watch` fires once when one changes after this has read them.
    """
    if seen is None:
        client.ensure_path(paths.TOKEN_CHANGES)
        client.ensure_path(paths.TOKENS)
    names = frozenset(client.get_children(paths.TOKEN_CHANGES, watch=watch))
    changed = None if seen is None else _changed(client, names - seen)
    if changed is None:
        return TokenNews(_read(client, client.get_children(paths.TOKENS)), names, is_whole=True)
    return TokenNews(_read(client, changed), names, is_whole=False)


def _changed(client: KazooClient, names: Iterable[str]) -> set[str] | None:
    """The ids that change nodes name; None where one cannot be read: it may name any."""
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


def write_token(client: KazooClient, token: DelegationToken, wall_ms: WallMs) -> None:
    """Write a token, new or changed, and announce it."""
    path, document = f"{paths.TOKENS}/{token.token_id}", znodes.encode_token(token)
    try:
        client.set(path, document)
    except NoNodeError:
        with suppress(NodeExistsError):  # its id is new: only this very call may have made it
            client.create(path, document, makepath=True)
    add_change(client, paths.TOKEN_CHANGE_PREFIX, token.token_id.encode(), wall_ms)


def remove_token(client: KazooClient, token_id: str, wall_ms: WallMs) -> None:
    """Remove a token, if it is there, and announce it."""
    with suppress(NoNodeError):
        client.delete(f"{paths.TOKENS}/{token_id}")
    add_change(client, paths.TOKEN_CHANGE_PREFIX, token_id.encode(), wall_ms)
