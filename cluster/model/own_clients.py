"""The client ids of Milena's own tools and page. Pure.

Load tests and the demo's machine feed are load, and `produce` and `consume` carry a user's records:
they have other ids.
"""

from typing import Final

OWN_PREFIX: Final = "milena-"
"""The client ids of commands that query or change something, of the page and of the rollup."""


def is_own(client_id: str | None) -> bool:
    """Whether a client id belongs to one of Milena's own clients."""
    return client_id is not None and client_id.startswith(OWN_PREFIX)
