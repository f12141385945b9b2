"""Where a demo keeps its data. The demo itself is run by tests/integration/test_demo.py."""

import pytest

from cluster.model.errors import UserError
from cluster.tools.main import main
from cluster.tools.own_cluster import own_directory


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return " ".join(capsys.readouterr().out.split())


def test_the_demo_uses_the_directory_of_the_variable(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MILENA_DATA_DIR", str(tmp_path))
    (tmp_path / "mine").touch()
    assert main(["demo", "--short"]) == 1
    assert f"{tmp_path} ($MILENA_DATA_DIR) is not empty" in capsys.readouterr().err
    assert (tmp_path / "mine").exists()


def test_a_chosen_directory_is_stronger_than_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("MILENA_DATA_DIR", str(tmp_path))
    (tmp_path / "mine").touch()
    with pytest.raises(UserError, match=r"is not empty") as refused:
        own_directory(tmp_path.parent)
    assert "MILENA_DATA_DIR" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "promised"),
    [
        (("demo",), "(default: $MILENA_DATA_DIR, else a temporary one)"),
        (("quotas", "client-check"), "(default: a temporary one)"),
        (("start",), "(default: $MILENA_DATA_DIR, else var)"),
        (("consume",), "open or aborted (default: read_uncommitted)"),
    ],
)
def test_help_states_the_default(capsys, words, promised):
    assert promised in help_of(capsys, *words)
