"""Every folder of tests has a budget, and what a folder takes is held against it."""

from pathlib import Path

import pytest

from tests.support.folder_budgets import BUDGETS, FolderSeconds, crowding, slowness

FOLDERS = [
    folder for folder in Path(__file__).parents[1].iterdir() if list(folder.rglob("test_*.py"))
]


class Session:
    exitstatus: int = pytest.ExitCode.OK


def exit_status(seconds: float) -> int:
    """The exit status of a run whose only test took that long."""
    budget, session = FolderSeconds(), Session()
    budget.pytest_runtest_logreport(
        pytest.TestReport(
            "tests/wire/x.py::t", ("", 0, ""), {}, "passed", None, "call", (), seconds
        )
    )
    budget.pytest_sessionfinish(session)  # type: ignore[arg-type]  # the one attribute that it uses
    return session.exitstatus


def test_every_folder_has_a_budget():
    assert {f"tests/{folder.name}" for folder in FOLDERS} - BUDGETS.keys() == set()


def test_a_folder_somewhat_over_its_budget_passes_and_one_far_over_it_fails():
    assert exit_status(BUDGETS["tests/wire"] * 2) == pytest.ExitCode.OK
    assert (
        exit_status(BUDGETS["tests/wire"] * 20 * crowding() * slowness())
        == pytest.ExitCode.TESTS_FAILED
    )
