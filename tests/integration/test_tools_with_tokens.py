"""Commands that log in by OAUTHBEARER: with a token from a file, and with an unsecured one."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.running_cluster import Cluster

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def clusters(path: Path, settings: dict[str, str]) -> Iterator[Cluster]:
    with Cluster(path / "data", brokers=1, overrides=settings) as running:
        yield running


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Takes tokens that `KEY` has signed."""
    path = tmp_path_factory.mktemp("signed")
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    keys = path / "keys.json"
    keys.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig"}]}))
    prefix = "listener.name.plaintext.oauthbearer.sasl.oauthbearer"
    own = {
        f"{prefix}.jwks.endpoint.url": keys.as_uri(),
        f"{prefix}.expected.audience": "kafka",
    }
    yield from clusters(path, {**SETTINGS, **own})


@pytest.fixture(scope="module")
def unsecured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Takes tokens that nobody has signed."""
    yield from clusters(tmp_path_factory.mktemp("unsecured"), SETTINGS)


def config(path: Path, *lines: str) -> list[str]:
    file = path / "client.properties"
    file.write_text(
        "\n".join(["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", *lines])
    )
    return ["--command-config", str(file)]


def written_token(path: Path, **claims: Any) -> Path:
    now_s = time.time()
    claims = {"sub": "alice", "aud": "kafka", "iat": now_s, "exp": now_s + 60, **claims}
    file = path / "token"
    file.write_text(jwt.encode(claims, KEY, "RS256", {"kid": "one"}) + "\n")
    return file


def uses(cluster: Cluster, options: list[str], topic: str) -> None:
    """A command with each of the two clients that commands have."""
    cluster.command("topics", *options, "--create", "--topic", topic)
    assert topic in cluster.command("topics", *options, "--list").stdout.splitlines()
    quota = ("--client-id", topic, "--producer-byte-rate", "1MB")
    cluster.command("quotas", "set", *quota, *options)
    assert topic in cluster.command("quotas", "list", *options).stdout


def test_a_token_from_a_file(signed: Cluster, tmp_path: Path) -> None:
    url = f"sasl.oauthbearer.token.endpoint.url={written_token(tmp_path).as_uri()}"
    uses(signed, config(tmp_path, url), "with-a-file")


def test_an_unsecured_token(unsecured: Cluster, tmp_path: Path) -> None:
    java = f'sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="alice";'
    uses(unsecured, config(tmp_path, java), "in-javas-words")
    own = ("enable.sasl.oauthbearer.unsecure.jwt=true", "sasl.oauthbearer.config=principal=alice")
    uses(unsecured, config(tmp_path, *own), "in-librdkafkas-words")
    produced = ("--topic", "loaded", "--throughput", "100", "--duration", "2")
    told = unsecured.command("load-test", *produced, *config(tmp_path, java)).stdout
    assert "0 lost" in told


def test_a_token_that_is_refused_is_one_line_and_not_shown(signed: Cluster, tmp_path: Path) -> None:
    token = written_token(tmp_path, exp=1)
    options = config(tmp_path, f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}")
    for command in (("topics", "--list"), ("quotas", "list")):
        done = signed.command(*command, *options, check=False)
        (line,) = done.stderr.strip().splitlines()
        assert done.returncode == 1
        assert "invalid_token" in line
        assert token.read_text().strip() not in line


def test_commands_that_start_processes_refuse_a_token_file(signed: Cluster, tmp_path: Path) -> None:
    url = f"sasl.oauthbearer.token.endpoint.url={written_token(tmp_path).as_uri()}"
    done = signed.command("load-test", "--topic", "x", *config(tmp_path, url), check=False)
    assert done.returncode in (1, 2)
    assert "a token from a file is for this command alone" in done.stderr.splitlines()[-1]
