"""`client-metrics`: which options go with which action, and what is shown."""

from collections.abc import Callable
from typing import Any, Self

import pytest

from cluster.model.ids import decode_uuid
from cluster.protocol.peer.pushed_metrics import MeasuredLatency
from cluster.tools import client_metrics
from cluster.tools.main import main
from tests.support.pushing_clients import LATENCY, pushed_answer, pushed_value, pushing_client


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--alter --metrics a", "--alter needs one of --name and --generate-name"),
        ("--alter --name n --generate-name --metrics a", "--alter needs one of --name and"),
        ("--alter --name n", "--alter needs --metrics, --interval or --match"),
        ("--delete", "--delete needs --name"),
        ("--list --name n", "--name goes with --alter and --delete and --describe"),
        ("--describe --interval 5", "--interval goes with --alter"),
        ("--list --json", "--json goes with --show"),
        ("--alter --name n --client-id c", "--client-id goes with --show"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: str, problem: str, directory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["client-metrics", *words.split()]) == 2
    assert problem in capsys.readouterr().err


class Directory:
    """An `Admin` whose brokers take everything."""

    def __init__(self) -> None:
        self.altered: list[tuple[Any, ...]] = []
        self.names: list[str] = []

    def any_broker(self, ask: Callable[[Any], Any]) -> Any:
        return ask(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Directory:
    made = Directory()
    monkeypatch.setattr(client_metrics, "admin_of", lambda _args, _client_id: made)
    monkeypatch.setattr(
        client_metrics, "alter_configs", lambda _client, *changes: made.altered.append(changes)
    )
    monkeypatch.setattr(client_metrics, "names_with_configs", lambda *_: list(made.names))
    return made


def test_first_subscription_says_which_clients_are_late(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = "Clients that were connected before the first subscription push after"
    command = ["client-metrics", "--alter", "--name", "some", "--metrics", "*"]
    assert main(command) == 0
    assert f"This is the first subscription. {late}" in capsys.readouterr().err
    directory.names = ["some"]
    assert main(command) == 0
    assert late not in "".join(capsys.readouterr())
    shown(monkeypatch)
    assert main(["client-metrics", "--show"]) == 0
    assert late in capsys.readouterr().out


def test_a_generated_name_is_a_uuid_and_an_empty_text_takes_a_setting_away(
    directory: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--alter", "--generate-name", "--metrics", "a.,b.", "--match", ""]
    assert main(["client-metrics", *words]) == 0
    ((kind, name, added, deleted),) = directory.altered
    assert (kind, added, deleted) == ("client-metrics", {"metrics": "a.,b."}, ["match"])
    assert decode_uuid(name)
    assert capsys.readouterr().out == f"Altered client metrics config for {name}.\n"


def shown(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    monkeypatch.setattr(client_metrics, "pushed_metrics", lambda *_: (list(answers), ["broker 9"]))


def test_both_sides_of_a_latency_are_shown_and_values_of_a_named_client(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = (
        pushed_value(f"{LATENCY}.avg", 2.5, {"node_id": "node-1"}),
        pushed_value("sent", 7, is_counter=True),
    )
    shown(
        monkeypatch,
        pushed_answer(pushing_client(*values, client_id="a\x1bb", ts_ms=4_000), left_out=2),
        pushed_answer(broker=1, measured=[MeasuredLatency("ann", "a\x1bb", "Produce", 700.0)]),
    )
    command = ["client-metrics", "--bootstrap-server", "localhost:1", "--show"]
    assert main(command) == 0
    printed = capsys.readouterr()
    lines = [line.split() for line in printed.out.splitlines()]
    assert ["a\\x1bb", "1", "Produce", "2.50", "-", "0.70", "-", "-"] in lines
    assert "1.0 s ago" in printed.out
    assert "and 2 more" in printed.out
    assert "sent" not in printed.out
    assert "WARNING: broker 9" in printed.err
    assert main([*command, "--client-id", "a"]) == 0
    assert ["sent", "7", "counter"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_a_cluster_without_pushes_says_how_to_ask_for_them(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(monkeypatch)
    assert main(["client-metrics", "--show"]) == 0
    told = capsys.readouterr().out
    assert "No subscription asks for any. To create one: " in told
    assert " client-metrics alter all --metrics '*'" in told
