"""What `start` says of clients' needs, by what the listeners of the bootstrap servers demand."""

from typing import Any

import pytest

from cluster.views.cluster_text import how_to_go_on


def state(*listeners: tuple[str, int], bootstrap: int, secure: bool = False) -> dict[str, Any]:
    """The state of one broker with listeners of these protocols at these ports."""
    process = {"pid": 1, "state": "running", "host": "127.0.0.1", "port": bootstrap}
    shown = [
        {
            "name": protocol,
            "host": "127.0.0.1",
            "port": port,
            "protocol": protocol,
            "listens_on": "127.0.0.1",
        }
        for protocol, port in listeners
    ]
    return {
        "data_dir": "/data",
        "registry": "127.0.0.1:2181",
        "registry_process": process,
        "bootstrap": f"127.0.0.1:{bootstrap}",
        "secure": secure,
        "brokers": [{"id": 0, **process, "listeners": shown}],
    }


def test_a_plaintext_listener_needs_no_client_properties():
    said = how_to_go_on(state(("PLAINTEXT", 1), ("SASL_SSL", 2), bootstrap=1), foreground=False)
    assert "need" not in said
    assert "--command-config" not in said


@pytest.mark.parametrize(
    ("protocol", "needs", "needs_not"),
    [
        ("SSL", "ssl.truststore.location", "sasl.mechanism"),
        ("SASL_PLAINTEXT", "sasl.mechanism", "ssl.truststore.location"),
        ("SASL_SSL", "sasl.mechanism", "nothing"),
    ],
)
def test_client_properties_of_custom_listeners_are_printed(protocol, needs, needs_not):
    said = how_to_go_on(state((protocol, 1), bootstrap=1), foreground=False)
    assert f"security.protocol={protocol}" in said
    assert needs in said
    assert needs_not not in said
    assert said.count("--command-config client.properties") == 3


def test_a_secure_cluster_names_its_files_instead():
    said = how_to_go_on(state(("SASL_SSL", 1), bootstrap=1, secure=True), foreground=False)
    assert "/data/clients" in said
    assert "--command-config" not in said
