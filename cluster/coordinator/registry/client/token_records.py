"""Delegation tokens in the registry, where Kafka keeps them: blocking calls.

    /delegation_token/tokens/HNUgkBK...                         {"version":3,"owner":...}
    /delegation_token/token_changes/token_change_0000000007     HNUgkBK...

A token's secret is not there: it is computed from its id.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.registry.client.change_nodes import add_change
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken

log = logging.getLogger(__name__)

Watch = Callable[[WatchedEvent], None]


def load_tokens(client: KazooClient, watch: Watch | None = None) -> dict[str, DelegationToken]:
    """All tokens by id; `watch` fires once when one changes after this has read them."""
    client.ensure_path(paths.TOKEN_CHANGES)
    client.ensure_path(paths.TOKENS)
    client.get_children(paths.TOKEN_CHANGES, watch=watch)
    answers = [
        (name, client.get_async(f"{paths.TOKENS}/{name}"))
        for name in client.get_children(paths.TOKENS)
    ]
    found = {}
    for name, answer in answers:
        try:
            found[name] = znodes.decode_token(answer.get()[0])
        except NoNodeError:
            continue
        except (NoAuthError, ValueError) as error:
            log.warning("a delegation token cannot be read: %r", error)
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
