"""Mutated jute records of every operation at a registry, beside a client that is served."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from kazoo.security import CREATOR_ALL_ACL

from tests.compat import zookeeper_wire as wire
from tests.fuzz.connections import Connections
from tests.fuzz.fuzzing import Fuzzer, Watched, mutated
from tests.integration.registry_process import RegistryProcess
from tests.support.kafka_wire import sized

CONNECTIONS = 8
ROOT = "/fuzz"
PATHS = (ROOT, f"{ROOT}/a", f"{ROOT}/b", f"{ROOT}/a/c", "/zookeeper/quota", "relative", "/", "/é\n")
CONNECT = struct.pack(">iqiq", 0, 0, 4_000, 0) + wire.buffer(bytes(16)) + b"\0"
STEPS = (wire.CREATE, wire.CREATE2, wire.CREATE_CONTAINER, wire.DELETE, wire.SET_DATA, wire.CHECK)


def record_of(random: Random, operation: int) -> bytes:
    """A well-formed record of one operation."""
    path = random.choice(PATHS)
    content = random.choice((b"", None, b"data", bytes(300)))
    number = random.choice((-1, 0, 1, 2, 5))
    match operation:
        case wire.CREATE | wire.CREATE2 | wire.CREATE_CONTAINER:
            acl = random.choice((wire.OPEN_ACL, (), ((1, "digest", "u:p"), (31, "x509", "?"))))
            return wire.create(path, content, random.choice((0, 0, 1, 2, 3, 4)), acl)
        case wire.CREATE_TTL:
            return wire.create(path, content, random.choice((5, 6))) + wire.long(number * 1_000)
        case wire.DELETE | wire.CHECK | wire.ADD_WATCH | wire.CHECK_WATCHES | wire.REMOVE_WATCHES:
            return wire.delete(path, number)
        case wire.SET_DATA:
            return wire.set_data(path, content, number)
        case wire.SET_ACL:
            return wire.text(path) + wire.acl_list(wire.OPEN_ACL) + wire.integer(number)
        case wire.EXISTS | wire.GET_DATA | wire.GET_CHILDREN | wire.GET_CHILDREN2:
            return wire.watchable(path, watch=random.random() < 0.5)
        case wire.MULTI:
            kinds = random.choices(STEPS, k=random.randrange(5))
            return wire.multi(*((kind, record_of(random, kind)) for kind in kinds))
        case wire.MULTI_READ:
            kinds = random.choices((wire.GET_DATA, wire.GET_CHILDREN), k=random.randrange(5))
            return wire.multi(*((kind, record_of(random, kind)) for kind in kinds))
        case wire.AUTH:
            return wire.integer(0) + wire.text("digest") + wire.buffer(b"user:password")
        case wire.SET_WATCHES | wire.SET_WATCHES2:
            lists = 3 if operation == wire.SET_WATCHES else 5
            return wire.long(number) + b"".join(wire.texts(path, ROOT) for _ in range(lists))
        case wire.PING | wire.WHO_AM_I | wire.CLOSE_SESSION | wire.RECONFIG:
            return b""
        case _:
            return wire.text(path)


OPERATIONS = sorted(
    value
    for name, value in vars(wire).items()
    if name.isupper()
    and isinstance(value, int)
    and name not in ("PERSISTENT", "EPHEMERAL")
    and not name.startswith(("SEQUENTIAL", "EPHEMERAL_", "CONTAINER", "TTL"))
)
"""All of ZooKeeper's, SASL among them."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry") as running:
        yield running


def test_no_mutated_record_does_harm(registry: RegistryProcess, fuzzer: Fuzzer) -> None:
    watched = Watched({"registry": registry.pid}, {"registry": registry.log_path})
    # The place is its own: a stranger may take everybody's rights to the root away (setACL on "/").
    client = registry.client(auth="bystander:secret")
    client.create("/bystander/0", makepath=True, acl=CREATOR_ALL_ACL)
    checked = 0
    with contextlib.closing(
        Connections((wire.HOST, registry.port), CONNECTIONS, sized(CONNECT))
    ) as connections:

        def send(random: Random) -> None:
            operation = random.choice(OPERATIONS)
            record = struct.pack(">ii", random.randrange(-3, 1_000), operation)
            record += record_of(random, operation)
            if random.random() < 0.7:
                record = mutated(random, record)
            connections.send(random, sized(record))

        def check() -> None:
            nonlocal checked
            watched.check()
            checked += 1
            content = b"check %d" % checked
            client.create(f"/bystander/{checked}", content, CREATOR_ALL_ACL)
            assert client.get(f"/bystander/{checked}")[0] == content

        fuzzer.run(send, check)
    assert connections.closed_count > 0
    assert connections.answered_count > 0
