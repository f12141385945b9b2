"""Client ids of Milena's own tools and page. Pure.

The clients of load tests and of the demo's machine feed are load, and `produce` and `consume` carry
a user's records: they have ids of their own.
"""

from typing import Final

OWN_PREFIX: Final = "milena-"
"""Client ids of commands that ask or change something, of the page and of the rollup."""


def is_own(client_id: str | None) -> bool:
    """Whether a client id is that of one of Milena's own clients."""
    return client_id is not None and client_id.startswith(OWN_PREFIX)
