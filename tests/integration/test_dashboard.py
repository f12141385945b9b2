"""The dashboard of a live cluster: it shows what brokers say, changes what it is told to, and is
never the reason that a cluster does not run.
"""

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from cluster.client.produce_requests import Answer, read_answer
from cluster.client.quota_requests import describe_quotas
from cluster.client.socket_client import SocketClient
from cluster.dashboard.live_rows import CLIENTS_MAX
from cluster.dashboard.topics import writer
from cluster.dashboard.topics.new_message import NewMessage
from cluster.datadir.paths import DataDir
from cluster.metrics.stats_reader import read_stats
from cluster.model.errors import UserError
from cluster.model.quotas import QuotaEntity
from tests.support.client_quotas import NamedClient, batch, send_as_many
from tests.support.kafka_wire import produce_request
from tests.support.open_transactions import begin
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic, leader, unique_name
from tests.support.waiting import DEADLINE_S, wait_until

NASTY = "<img src=x onerror=alert(1)>\"'😀\n"
TOPIC = "shown"


class Browser:
    """Asks the dashboard as its page does."""

    def __init__(self, cluster: Cluster) -> None:
        self.url = f"http://{HOST}:{cluster.dashboard_port}"
        self.http = httpx.Client(base_url=self.url, timeout=DEADLINE_S)
        # The address that `start` has told listens already: no connection is refused.
        found = re.search(r'name="milena-token" content="([^"]+)"', self.http.get("/").text)
        assert found is not None
        self._token = found[1]

    def close(self) -> None:
        self.http.close()

    def is_there(self) -> bool:
        try:
            return self.http.get("/").status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = self.http.post(path, json=body or {}, headers={"x-milena-token": self._token})
        assert answer.status_code == status, answer.text
        return answer.json()

    @contextmanager
    def readings(self) -> Iterator[Iterator[dict[str, Any]]]:
        """The stream of readings; its end is the end of the iteration."""
        with self.http.stream("GET", "/api/live") as answer:
            yield self._readings(answer.iter_lines())

    def _readings(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + DEADLINE_S
        for line in lines:
            assert time.monotonic() < deadline, f"no such reading within {DEADLINE_S} s"
            if line.startswith("data: "):
                yield json.loads(line[6:])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers of this module's own, which are killed and stopped."""
    with Cluster(tmp_path_factory.mktemp("dashboard"), brokers=2, dashboard=True) as running:
        create_topic(running, TOPIC, partitions=2, replication_factor=2)
        yield running


@pytest.fixture
def browser(cluster: Cluster) -> Iterator[Browser]:
    with closing(Browser(cluster)) as opened:
        yield opened


def produce(cluster: Cluster, client_id: str, size_bytes: int = 50_000) -> int:
    """One record, by a client of that name; returns the broker that took it."""
    broker = leader(cluster, TOPIC, 0)
    with NamedClient(cluster.addresses[broker], client_id) as client:
        client.call(produce_request(TOPIC, batch(size_bytes)))
    return broker


def seen(browser: Browser, client_id: str) -> dict[str, Any] | None:
    found = browser.get("/api/now", search=client_id)["clients"]
    return next((each for each in found if each["quota"] == "produce"), None)


def test_status_prints_the_address_of_the_dashboard(cluster: Cluster, browser: Browser) -> None:
    state = cluster.status()
    assert state["dashboard"] == f"{browser.url}/"
    assert state["dashboard_process"]["state"] == "running"
    assert (
        json.loads((cluster.data_dir / "cluster.json").read_text())["dashboard"]
        == browser.url + "/"
    )
    assert f"{HOST}:{cluster.dashboard_port}" in cluster.command("status").stdout


def test_dashboard_shows_the_usage_of_a_client(cluster: Cluster, browser: Browser) -> None:
    broker = produce(cluster, NASTY)
    row = wait_until(lambda: seen(browser, NASTY), "the client to be shown")
    (told,) = row["brokers"]
    stats = read_stats(DataDir(cluster.data_dir).run / f"broker-{broker}.stats")
    (own,) = [each for each in stats.rows if (each.client_id, each.quota) == (NASTY, "produce")]
    assert (told["broker"], told["requests"], told["limit"]) == (broker, own.requests, own.limit)
    client = browser.get("/api/client", user="ANONYMOUS", client_id=NASTY)
    assert client["standing"] == "unlimited"
    assert client["sentence"].startswith("not throttled: no limit applies to it")
    (quota,) = [each for each in client["quotas"] if each["quota"] == "produce"]
    assert len(quota["rules"]) == 8
    assert quota["brokers"][0]["usage"] == own.usage
    assert quota["brokers"][0]["arithmetic"] == "no limit, no delay"


def test_the_transaction_that_readers_wait_for_is_named_until_it_ends(
    cluster: Cluster, browser: Browser
) -> None:
    def held() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = browser.get("/api/held-back")["held"]
        return found

    name, topic = unique_name("paying"), create_topic(cluster, replication_factor=2)
    begin(cluster, name, topic, records=3)
    (row,) = wait_until(held, "the partition to be shown")
    assert (row["topic"], row["partition"], row["transactional_id"]) == (topic, 0, name)
    assert (row["records"], row["verdict"]) == (3, "open")
    assert 1_000 <= row["age_ms"] < 10 * 60_000
    assert "transaction.timeout.ms=600000" in row["ends"]
    assert row["command"].endswith(f"transactions force-terminate --transactional-id {name}")
    (listed,) = browser.get("/api/transactions", search=name.upper())["open"]
    assert (listed["state"], listed["partitions"]) == ("Ongoing", [f"{topic}-0"])
    assert listed["client"].startswith(f"client-of-{name} at ")
    assert listed["command"] == row["command"]
    told = browser.get("/api/transactions/explain", transactional_id=name)
    printed = cluster.command("transactions", "explain", "--transactional-id", name).stdout
    assert told["sentence"].startswith(f"'{name}': a transaction has been open for ")
    assert printed.startswith(f"'{name}': a transaction has been open for ")
    lines = [line for line in told["text"].splitlines() if "to end it now" not in line]
    assert set(lines) <= {*printed.splitlines()}
    question = browser.get("/api/transactions/terminate", transactional_id=name)
    assert "in 1 partition: read_committed consumers never get its records" in question["question"]
    done = browser.post("/api/transactions/terminate", {"transactional_id": name})
    assert done["text"] == f"{name}: aborted the transaction and fenced the producer of epoch 0."
    assert done["command"] == question["command"] == row["command"]
    wait_until(lambda: held() == [], "the end to be shown")
    (ended,) = browser.get("/api/transactions", search=name)["others"]
    assert ended["state"] == "Empty"  # of the producer that fenced it


def test_dashboard_counts_the_muted_connections_of_a_client(
    cluster: Cluster, browser: Browser
) -> None:
    name = "two-of-three"
    limit = ("--client-id", name, "--producer-byte-rate")
    cluster.command("quotas", "set", *limit, "1000")
    address = cluster.addresses[leader(cluster, TOPIC, 0)]
    with ExitStack() as stack:
        clients = [stack.enter_context(NamedClient(address, name)) for _ in range(3)]
        sizes = (10, 20_000, 20_000)
        for client, size_bytes in zip(clients, sizes, strict=True):
            client.call(produce_request(TOPIC, batch(size_bytes)))

        def counted() -> tuple[int, int] | None:
            row = seen(browser, name)
            if row is None:
                return None
            (told,) = row["brokers"]
            return told["connections"], told["muted_channels"]

        wait_until(lambda: counted() == (3, 2), "two of three to be muted")
        found = browser.get("/api/found", search=name)
        cells = dict(zip(found["columns"], found["new"][0][4:], strict=True))
        assert cells["muted"] == 2
        cluster.command("quotas", "unset", *limit)
        wait_until(lambda: counted() == (3, 0), "both to go on")


def test_dashboard_counts_clients_beyond_the_rows_of_a_broker(
    cluster: Cluster, browser: Browser
) -> None:
    broker = leader(cluster, TOPIC, 0)
    names = [f"many-{number}-<b>😀" for number in range(1_500)]  # two quotas each
    send_as_many(cluster, TOPIC, names, broker)

    def found(name: str) -> list[list[Any]]:
        rows: list[list[Any]] = browser.get("/api/found", search=name)["new"]
        return rows

    # What many clients have used is written in several of a broker's ticks.
    rows = wait_until(lambda: found(names[-1].upper()), "the last one")
    assert {row[2] for row in rows} == {names[-1]}
    with browser.readings() as readings:
        whole = next(readings)
        assert len(whole["new"]) == CLIENTS_MAX
        assert whole["clients_left_out"] > 0
    series = browser.http.get("/metrics").text.splitlines()
    rates = [line for line in series if line.startswith("kafka_server_produce_byte_rate{")]
    assert 0 < len(rates) <= 1_001 * cluster.size
    assert any('client_id="_other"' in line for line in series)
    plain = cluster.command("quotas", "watch", "--once", "--all").stdout
    assert names[-1] in plain


def test_dashboard_reports_an_unknown_client_and_an_empty_history(browser: Browser) -> None:
    answer = browser.http.get("/api/client", params={"user": "u", "client_id": "nobody"})
    assert answer.status_code == 409
    assert answer.json()["error"] == (
        "no broker has heard of nobody of user u within the last hour"
    )
    told = browser.get("/api/history", user="u", client_id="c", since_ms=0)
    assert told["windows"] == []
    assert "rollup" in told["empty"]


def test_dashboard_shows_the_state_of_the_cluster(cluster: Cluster, browser: Browser) -> None:
    cluster.command("configs", "--alter", "--topic", TOPIC, "--add-config", "retention.ms=777000")
    produce(cluster, "for-the-disk")

    view = browser.get("/api/cluster")
    assert view["controller"] == cluster.status()["controller"]
    assert view["health"]["brokers_up"] == 2
    assert view["health"]["offline"] == view["health"]["under_replicated"] == 0
    assert sum(each["leaders"] for each in view["brokers"]) == view["health"]["partitions"]

    def listed() -> dict[str, Any] | None:
        (row,) = [each for each in browser.get("/api/topics")["topics"] if each["name"] == TOPIC]
        return row if row["bytes"] else None

    row = wait_until(listed, "the topic with its size")
    assert (row["partitions"], row["replication_factor"]) == (2, 2)
    assert row["bytes"] >= 2 * 50_000  # of both replicas

    def shown() -> dict[str, Any] | None:
        page: dict[str, Any] = browser.get("/api/topic", name=TOPIC)
        changed = {each["name"]: each for each in page["configs"] if each["source"] == "topic"}
        return page if changed.get("retention.ms", {}).get("value") == "777000" else None

    page = wait_until(shown, "the topic with its configs")
    assert [each[0] for each in page["partition_rows"]] == [0, 1]
    for number, led_by, replicas, in_sync, start, end, size in page["partition_rows"]:
        assert led_by == leader(cluster, TOPIC, number)
        assert sorted(in_sync) == sorted(replicas) == [0, 1]
        assert 0 <= start <= end
        assert size >= 0
    unknown = browser.get("/api/topic", name="a\nb")
    assert unknown == {"name": "a\nb", "is_missing": True}

    def api() -> dict[str, Any] | None:
        produce(cluster, "for-the-rates")
        found = browser.get("/api/cluster")["apis"]
        return next((each for each in found if each["api"] == "Produce"), None)

    rated = wait_until(api, "the rate of produce requests")
    assert rated["requests_per_s"] > 0
    assert 0 < rated["p50_ms"] <= rated["p99_ms"]
    assert 0 < rated["local_p50_ms"] <= rated["local_p99_ms"]


def test_a_message_whose_answer_was_lost_is_written_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Answer] = []

    def losing(body: bytes) -> Answer:
        answers.append(read_answer(body))
        if len(answers) == 1:
            raise UserError("lost")
        return answers[-1]

    monkeypatch.setattr(writer, "read_answer", losing)
    brokers = dict(enumerate(cluster.addresses))
    written = writer.write_message(
        DataDir(cluster.data_dir), brokers, NewMessage(TOPIC, None, "once", (), 1)
    )
    first, second = answers
    assert first == second
    assert written == {"partition": 1, "offset": first.base_offset}


def test_a_quota_is_set_and_removed_and_the_command_line_does_the_same(
    cluster: Cluster, browser: Browser
) -> None:
    name = "two 'words'"
    entity = QuotaEntity(None, name)

    def limits() -> dict[str, float]:
        with SocketClient.connect(cluster.addresses, "test") as client:
            return describe_quotas(client).get(entity, {})

    changes = {"producer_byte_rate": 4096, "request_percentage": 12.5}
    done = browser.post("/api/quotas", {"entity": {"client-id": name}, "changes": changes})
    assert limits() == changes
    removed = browser.post(
        "/api/quotas", {"entity": {"client-id": name}, "changes": dict.fromkeys(changes)}
    )
    assert limits() == {}
    for line, then in ((done["command"], changes), (removed["command"], {})):
        subprocess.run(["sh", "-ec", line], check=True, timeout=60, capture_output=True)
        assert limits() == then


def test_dashboard_shows_a_broker_dying(cluster: Cluster, browser: Browser) -> None:
    def told() -> list[str]:
        events = browser.get("/api/now")["events"]
        texts = [each["text"] for each in events if each["process"] == "broker 1"]
        return [text for text in texts if text != "is the controller"]

    before = len(told())  # other tests have paused and restarted it
    done = browser.post("/api/brokers/1/kill")
    assert done["command"].endswith(" kill 1")
    end = before + 2
    wait_until(lambda: told()[end : end + 1] == ["is running again"], "the end of the restart")
    assert told()[before:end] == [
        "is sent SIGKILL by a command",
        "was killed by SIGKILL; starting it again in 1 s",
    ]
    with browser.readings() as readings:
        states = (
            {each["broker"]: each["state"] for each in reading["brokers"]}
            for reading in readings
            if "brokers" in reading
        )
        assert next(each for each in states if set(each.values()) == {"alive"})
        # Started again at once, it may be dead between two readings only.
        browser.post("/api/brokers/1/kill-and-keep-down")
        assert next(each for each in states if each[1] != "alive")[0] == "alive"
        browser.post("/api/brokers/1/restart")
        assert next(each for each in states if each[1] == "alive")
    assert "events" not in browser.get("/api/now")["cluster"]


def test_dashboard_shows_a_broker_paused_resumed_and_restarted(
    cluster: Cluster, browser: Browser
) -> None:
    def state() -> str:
        told: str = cluster.state()["brokers"][1]["state"]
        return told

    wait_until(lambda: state() == "running", "broker 1 to run")
    assert browser.post("/api/brokers/1/pause")["command"].endswith(" pause 1")
    try:
        assert state() == "paused"
        assert browser.get("/api/cluster")["controller"] is not None  # another broker answers
        paused = wait_until(
            lambda: next(
                (
                    each
                    for each in browser.get("/api/now")["brokers"]
                    if each["broker"] == 1 and each["state"] == "silent"
                ),
                None,
            ),
            "broker 1 to be silent",
        )
        assert (paused["rates"], paused["idle"]) == (None, None)
        health = browser.get("/api/now")["health"]
        assert health == json.loads(cluster.command("status", "--json").stdout)["health"]
        assert (health["state"], health["brokers_serving"]) == ("degraded", 1)
        assert {"kind": "broker_paused", "text": "broker 1 is paused", "broker": 1} in health[
            "problems"
        ]
        assert cluster.command("status", "--check", check=False).returncode == 3
        metrics = browser.http.get("/metrics").text
        assert 'milena_cluster_state{state="degraded"} 1\n' in metrics
        assert 'milena_cluster_problems{kind="broker_paused"} 1\n' in metrics
    finally:
        browser.post("/api/brokers/1/resume")
    assert state() == "running"
    before = cluster.pid(1)
    assert browser.post("/api/brokers/1/restart")["command"].endswith("restart 1")
    wait_until(lambda: state() == "running" and cluster.pid(1) != before, "the restart")
    told = browser.post("/api/brokers/7/kill", status=409)
    assert told["error"] == "there is no broker 7: choose one of registry, dashboard, 0, 1"


def test_dashboard_is_restarted_when_it_dies_and_the_cluster_keeps_running(
    cluster: Cluster, browser: Browser
) -> None:
    before = cluster.state()["dashboard_process"]["pid"]
    psutil.Process(before).send_signal(signal.SIGKILL)

    def again() -> bool:
        process = cluster.state()["dashboard_process"]
        return process["state"] == "running" and process["pid"] != before

    wait_until(again, "another dashboard")
    with closing(Browser(cluster)) as anew:
        assert anew.get("/api/now")["cluster"]["state"] == "up"


def test_a_stop_ends_streams_and_a_taken_port_ends_nothing(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1, dashboard=True) as cluster:
        stop_while_somebody_looks(cluster)
        start_where_the_port_is_taken(cluster)


def stop_while_somebody_looks(cluster: Cluster) -> None:
    with closing(Browser(cluster)) as browser, browser.readings() as readings:
        next(readings)
        cluster.stop()
        assert list(readings) is not None  # the stream ends rather than breaks
    assert "Traceback" not in cluster.log_text("dashboard")


def start_where_the_port_is_taken(cluster: Cluster) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((HOST, cluster.dashboard_port))
        taken.listen(1)
        words = [f"--port={cluster.addresses[0][1]}", f"--registry-port={cluster.registry_port}"]
        dashboard = f"--dashboard-port={cluster.dashboard_port}"
        done = cluster.command("start", "--detach", *words, dashboard)
        line = f"There is no dashboard: port {cluster.dashboard_port} is in use"
        assert line in done.stdout + done.stderr
        state = cluster.status()
        assert (state["state"], state["dashboard"], state["dashboard_process"]) == (
            "up",
            None,
            None,
        )


def test_kill_and_restart_accept_the_dashboard(cluster: Cluster, browser: Browser) -> None:
    first = cluster.state()["dashboard_process"]["pid"]
    assert (
        f"The dashboard (pid {first}) was sent SIGKILL"
        in cluster.command("kill", "dashboard").stdout
    )

    def pid() -> int | None:
        process = cluster.state()["dashboard_process"]
        return process["pid"] if process["state"] == "running" else None

    wait_until(
        lambda: cluster.state()["dashboard_process"]["pid"] != first, "the supervisor to reap it"
    )
    # Its address is held meanwhile: whoever comes before it is back waits.
    assert httpx.get(browser.url, timeout=DEADLINE_S).status_code == 200
    second = wait_until(lambda: pid() not in (None, first) and pid(), "the supervisor's restart")
    assert "The dashboard runs again" in cluster.command("restart", "dashboard").stdout
    assert pid() not in (None, first, second)
