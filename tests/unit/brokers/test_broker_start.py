"""A broker that cannot start says why, and closes what it has opened."""

import socket
from pathlib import Path

import pytest

from cluster.brokers.broker import run_broker
from cluster.config.settings import broker_settings
from cluster.model.errors import UserError


def test_a_key_store_that_cannot_be_read_is_told_as_such(tmp_path: Path) -> None:
    settings = broker_settings(
        {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(tmp_path / "none.pem"),
            "zookeeper.connect": "127.0.0.1:1",
            "log.dirs": str(tmp_path / "log"),
        }
    )
    with pytest.raises(UserError, match=r"cannot read ssl.keystore.location .*/none.pem: No such"):
        run_broker(
            settings, tmp_path, lambda _facts: None, lambda _progress: None, lambda _view: None
        )


def test_a_port_in_use_is_told_as_such(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = broker_settings(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "zookeeper.connect": "127.0.0.1:1",
                "log.dirs": str(tmp_path / "log"),
            }
        )
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            run_broker(
                settings, tmp_path, lambda _facts: None, lambda _progress: None, lambda _view: None
            )
