"""The built-in registry and ZooKeeper are asked the same and must answer the same, in all that a
client can see: error codes, zxids, Stats, events and their order, connections closed.

Known and intended differences are listed at the head of `zookeeper_scenarios`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat import zookeeper_wire as z
from tests.compat.zookeeper_scenarios import (
    SCENARIOS,
    TICK_MS,
    after_a_restart,
    before_a_restart,
)
from tests.compat.zookeeper_server import ZooKeeperProcess, four_letter_word, require_zookeeper
from tests.compat.zookeeper_stage import Stage
from tests.integration.registry_process import RegistryProcess

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

WORDS = (
    *("ruok", "isro", "conf", "srvr", "stat", "cons", "dump", "dirs"),
    *("wchs", "wchc", "wchp", "crst", "srst", "srvr", "stat", "mntr"),
)
REFUSED = "envi"
WHITELIST = ",".join(sorted({*WORDS}))


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    directory = tmp_path_factory.mktemp("zookeeper")
    settings = {"4lw.commands.whitelist": WHITELIST}
    with ZooKeeperProcess(directory, tick_time_ms=TICK_MS, settings=settings) as process:
        yield process


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    directory = tmp_path_factory.mktemp("registry") / "data"
    with RegistryProcess(directory, tick_time_ms=TICK_MS, words=WHITELIST) as process:
        yield process


TRIES = 3
"""Sessions of earlier scenarios that expire meanwhile take zxids, at ZooKeeper as at the registry:
on a busy machine in the middle of another scenario."""


def transcript(port: int, scenario: Callable[[Stage], None], attempt: int) -> list[str]:
    with Stage(port, f"{scenario.__name__}{attempt}") as stage:
        scenario(stage)
    return stage.transcript


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_answers_equal_zookeepers(
    zookeeper: ZooKeeperProcess, registry: RegistryProcess, scenario: Callable[[Stage], None]
) -> None:
    for attempt in range(TRIES):
        ours, theirs = (
            transcript(server.port, scenario, attempt) for server in (registry, zookeeper)
        )
        if ours == theirs:
            break
    assert ours == theirs
    assert "Traceback" not in registry.log()


def test_answers_equal_zookeepers_after_kill_9(tmp_path: Path) -> None:
    require_zookeeper()
    transcripts = []
    # A session must outlive the restart of a JVM on a busy machine; a server grants 20 ticks.
    tick_ms, timeout_ms = 3_000, 60_000
    for server in (
        RegistryProcess(tmp_path / "registry", tick_time_ms=tick_ms),
        ZooKeeperProcess(tmp_path / "zookeeper", tick_time_ms=tick_ms),
    ):
        with server, Stage(server.port, "restarted", timeout_ms=timeout_ms) as stage:
            before_a_restart(stage)
            server.kill()
            server.start()
            after_a_restart(stage)
            transcripts.append(stage.transcript)
    ours, theirs = transcripts
    assert ours == theirs


def layout(word: str, text: str) -> str:
    """The answer to a four-letter word without what may differ, such as numbers and versions."""
    text = re.sub(r"(?m)^((Zookeeper )?version: |zk_version\t).*$", r"\1", text)
    text = re.sub(r"(?m)^(\w+=).*$", r"\1", text)
    text = re.sub(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [\d:]+ \w+ \d{4}", "TIME", text)
    text = re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?", "N", text)
    if word == "mntr":
        ours: tuple[str, ...]
        ours = ("version", "server_state", "ephemerals_count", "num_alive_connections")
        ours += ("avg_latency", "outstanding_requests", "znode_count", "global_sessions")
        ours += ("watch_count", "min_latency", "approximate_data_size", "local_sessions")
        wanted = [f"zk_{name}" for name in (*ours, "packets_sent", "packets_received")]
        lines = [line for line in text.splitlines() if line.partition("\t")[0] in wanted]
        return "\n".join(sorted(lines))
    if word == "dump":
        # ZooKeeper has a clock of its own for connections, the registry uses the session's; and
        # its tick may leave a set without sessions for a moment.
        return text[text.index("ephemeral nodes dump:") : text.index("Connections dump:")]
    if word in ("cons", "stat", "wchc", "wchp"):
        return "\n".join(sorted(text.split("\n")))
    return text


def test_answers_to_four_letter_words_equal_zookeepers(
    zookeeper: ZooKeeperProcess, registry: RegistryProcess
) -> None:
    answers = []
    for port in (registry.port, zookeeper.port):
        with Stage(port, "words") as stage:
            for name in ("a", "b"):
                stage.do(name, z.CREATE, z.create(f"/words/{name}", b"", z.EPHEMERAL))
                stage.do(name, z.EXISTS, z.watchable(f"/words/{name}", watch=True))
            stage.do("children", z.GET_CHILDREN, z.watchable("/words", watch=True))
            asked = (*WORDS, REFUSED)
            answers.append([layout(word, four_letter_word(port, word)) for word in asked])
    for word, ours, theirs in zip(asked, *answers, strict=True):
        assert ours == theirs, word
