"""Milena's own clients are told by their client ids from a user's."""

import re
from pathlib import Path

from cluster.model.own_clients import OWN_PREFIX

ROOT = Path(__file__).parents[2]
NAMED = re.compile(
    r"""(?:CLIENT_ID(?::\ Final)?\ =\ |"client\.id":\ |
        connect\((?:AdminClient|Consumer|Producer),\ args,\ |
        (?:SocketClient\.connect|admin_of)\([^"\n]*,\ )"([^"]+)\"""",
    re.VERBOSE,
)
OF_USERS = {
    "machine-feed",  # sample data of the demo: load
    "simulated",  # a client that never connects
    "console-consumer",  # a user's records
    "console-producer",
    "client-id",  # the word of a quota entity
    "__admin_client",  # Kafka's, which may write to internal topics
}


def test_every_tool_has_a_client_id_that_tells_it_from_a_users_clients():
    found = {
        name
        for path in (ROOT / "cluster").rglob("*.py")
        for name in NAMED.findall(path.read_text())
        if not name.startswith(OWN_PREFIX)
    }
    assert found <= OF_USERS


def test_every_admin_client_has_an_id():
    """Without one librdkafka says `rdkafka`."""
    unnamed = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "cluster").rglob("*.py")
        if "AdminClient({" in (text := path.read_text()) and '"client.id"' not in text
    ]
    assert unnamed == []
