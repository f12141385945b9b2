"""Whom a quota's rule applies to, in words. Pure."""

from typing import Final

APPLIES_TO: Final = {
    "user+client": "this user with this client id",
    "user+default-client": "this user with all other client ids (default)",
    "user": "this user",
    "default-user+client": "all other users (default) with this client id",
    "default-user+default-client": "all other users and client ids (default)",
    "default-user": "all other users (default)",
    "client": "this client id",
    "default-client": "all other client ids (default)",
}
"""By rule; `model.quotas.RULES` has the same."""
