"""Kills a registry again and again while clients write, and checks what it remembers each time.

Run as a process of its own (`python -m tests.integration.registry_crashes DIR ROUNDS SEED`): it has
one thread, so that a registry is forked from it in no time. Every client keeps a pipeline of writes
under one znode: set the number, create a child of that number, delete an old child; some of them in
a multi. After each kill the znode must look as after some number of these writes, all acknowledged
ones among them: so nothing is lost, nothing half done, nothing out of order.
"""

import contextlib
import os
import random
import select
import signal
import sys
import time
from collections import deque
from pathlib import Path

from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.coordinator.registry.server.registry_process import run_registry
from tests.compat.zookeeper_wire import (
    CREATE,
    DELETE,
    GET_CHILDREN,
    GET_DATA,
    MULTI,
    SET_DATA,
    Closed,
    WireClient,
    create,
    delete,
    multi,
    set_data,
    watchable,
)

CLIENTS = 3
KEPT_CHILDREN = 8
PIPELINE = 40
MAX_DELAY_SECONDS = 0.02
State = tuple[int, frozenset[str]]


class Writer:
    """One client's writes: what was sent, what was acknowledged, and what they come to."""

    def __init__(self, number: int) -> None:
        self.path = f"/w{number}"
        self.uses_multi = number % 2 == 0
        self.counter = 0
        self.is_made = False
        self.acknowledged: State = (0, frozenset())
        self.pending: deque[State] = deque()
        """The states that the writes under way lead to, in their order."""
        self._newest: State = self.acknowledged

    def begin(self, client: WireClient) -> None:
        """After a start: make the znode once; see where the writes have come to, and check it."""
        self.client = client
        if not self.is_made:
            client.call(CREATE, create(self.path, b"0"))
            self.is_made = True
        data, names = (
            client.call(GET_DATA, watchable(self.path)),
            client.call(GET_CHILDREN, watchable(self.path)),
        )
        found = (int(data.fields[0]), frozenset(names.fields[0]))
        allowed = [self.acknowledged, *self.pending]
        assert found in allowed, f"{self.path}: found {found}, allowed {allowed}"
        self.acknowledged = self._newest = found
        self.counter = max(found[0], *(int(name) for name in found[1])) if found[1] else found[0]
        self.pending.clear()

    def fileno(self) -> int:
        """Readable when an answer has come."""
        return self.client.fileno()

    def send(self) -> None:
        """The next write, or three at once."""
        self.counter += 1
        number, names = self.counter, self._newest[1]
        created = names | {str(number)}
        old = {name for name in created if int(name) <= number - KEPT_CHILDREN}
        steps = [
            (SET_DATA, set_data(self.path, str(number).encode()), (number, names)),
            (CREATE, create(f"{self.path}/{number}", b"x" * 100), (number, created)),
        ]
        for name in sorted(old, key=int):
            created = created - {name}
            steps.append((DELETE, delete(f"{self.path}/{name}"), (number, created)))
        if self.uses_multi:
            self._send(MULTI, multi(*(step[:2] for step in steps)), steps[-1][2])
        else:
            for operation, record, state in steps:
                self._send(operation, record, state)

    def _send(self, operation: int, record: bytes, state: State) -> None:
        self.client.send(operation, record)
        self._newest = state
        self.pending.append(state)

    def take_reply(self) -> int:
        """One acknowledgement; its zxid."""
        reply = self.client.receive(0)
        assert reply is not None
        assert reply.error == 0, reply
        self.acknowledged = self.pending.popleft()
        return reply.zxid


def start(directory: Path, port: int, snapshot_every: int) -> tuple[int, int]:
    """Fork a registry; its pid and port."""
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready_read)
        options = RegistryOptions(
            data_dir=directory,
            port=port,
            tick_time_ms=2_000,
            snapshot_every_transactions=snapshot_every,
        )

        def tell(bound: int) -> None:
            os.write(ready_write, str(bound).encode())

        try:
            run_registry(options, tell)
        except BaseException as failure:  # noqa: BLE001 - a forked child must not go on here
            sys.stderr.write(f"registry: {failure!r}\n")
        os._exit(1)
    os.close(ready_write)
    answer = os.read(ready_read, 16)
    os.close(ready_read)
    assert answer, "the registry did not start"
    return pid, int(answer)


def write_until_killed(writers: list[Writer], pid: int, dice: random.Random) -> int:
    """Keep the pipelines full until a random instant; the highest zxid acknowledged."""
    highest_zxid = 0
    kill_at = time.monotonic() + dice.random() * MAX_DELAY_SECONDS
    is_killed = False
    alive = list(writers)
    while alive:
        for writer in () if is_killed else alive:
            while len(writer.pending) < PIPELINE:
                writer.send()
        patience = None if is_killed else max(0.0, kill_at - time.monotonic())
        for writer in select.select(alive, [], [], patience)[0]:
            try:
                highest_zxid = max(highest_zxid, writer.take_reply())
            except Closed:
                alive.remove(writer)
        if not is_killed and time.monotonic() >= kill_at:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            is_killed = True
    return highest_zxid


def main(directory: Path, rounds: int, seed: int) -> None:
    """Prints how many rounds and acknowledged writes there were."""
    dice = random.Random(seed)
    writers = [Writer(number) for number in range(CLIENTS)]
    port = highest_zxid = 0
    for _ in range(rounds):
        pid, port = start(directory, port, snapshot_every=dice.choice((20, 100, 500)))
        try:
            for writer in writers:
                client = WireClient(port)
                client.connect(last_zxid=highest_zxid)  # refused if it were behind what was told
                writer.begin(client)
            highest_zxid = max(highest_zxid, write_until_killed(writers, pid, dice))
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        for writer in writers:
            writer.client.drop()
    print(rounds, highest_zxid)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
