"""bin/cluster compiles the request path in the background; the next start uses it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.compilation.build_files import BuildFiles
from cluster.compilation.compiler import missing_compiler
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
BUILD_TIMEOUT_S = 900  # of lowest priority, beside other tests
COMPILED = ("records/batch", "log/producer_state", "protocol/framing")
"""What the copy compiles: few modules, as `test_compiled.py` runs brokers of all of them."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.beyond_pypi,
    pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler())),
]


class Checkout:
    """A copy of the project in which nothing has to be installed from a package index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = BuildFiles(root)
        for name in ("bin", "cluster", "etc"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.so"))
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, root)
        self._compile_only(COMPILED)
        self._install(root / ".venv", "core")
        shutil.copy(root / "cluster" / "records" / "_walk.c", root / ".venv" / ".walk-tried")
        self._install(self.files.environment, "compile")

    def _compile_only(self, modules: tuple[str, ...]) -> None:
        path = self.root / "pyproject.toml"
        listed = re.compile(r"^compiled_modules = \[.*?^\]", re.DOTALL | re.MULTILINE)
        text, count = listed.subn(f"compiled_modules = {list(modules)}", path.read_text())
        assert count == 1
        path.write_text(text)

    def _install(self, environment: Path, name: str) -> None:
        """An environment with the packages of the one that runs this test."""
        python = environment / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        pins = self.root / "etc" / "requirements" / f"{name}.txt"
        shutil.copy(pins, environment / f".installed-{name}")

    def run(
        self, *words: str, text: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "CC")}
        level = {"MILENA_COMPILE": "auto", "MILENA_COMPILE_LEVEL": "0"}
        return subprocess.run(
            [self.root / "bin" / "cluster", *words],
            cwd=self.root,
            env={**kept, **level, **variables},
            input=text,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )

    def start(self) -> str:
        """Start one broker. Returns what is said on stderr."""
        ports = ("--port", "0", "--registry-port", "0", "--dashboard-port", "0")
        done = self.run("start", "--detach", "--brokers", "1", *ports)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def stop(self) -> None:
        assert self.run("stop").returncode == 0

    def build_of_cluster(self) -> str:
        """The line of `status` about the build."""
        lines = self.run("status").stdout.splitlines()
        return next(line for line in lines if line.startswith("Runs "))

    def has_failed(self) -> bool:
        return self.files.failed() is not None and not self.files.is_building()

    def version(self) -> str:
        return self.run("--version").stdout.strip().partition(" (")[2].removesuffix(")")

    def forget_builds(self) -> None:
        """Remove every trace of earlier builds."""
        for path in self.files.folder.iterdir():
            if path.is_file():
                path.unlink()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("background") / "checkout")


@pytest.fixture
def checkout(shared: Checkout) -> Iterator[Checkout]:
    """The project without a running cluster or build; an earlier build may be there."""
    yield shared
    shared.run("stop")
    wait_until(lambda: not shared.files.is_building(), "the build", BUILD_TIMEOUT_S)


@pytest.fixture
def built(checkout: Checkout) -> Checkout:
    """The project with a build of its present sources."""
    if checkout.files.current() is None:
        done = checkout.run("compile")
        assert done.returncode == 0, done.stderr
    return checkout


def test_the_start_after_a_build_in_the_background_is_compiled(checkout: Checkout) -> None:
    checkout.forget_builds()
    assert "is being compiled in the background" in checkout.start()
    wait_until(lambda: checkout.files.current() is not None, "the build", BUILD_TIMEOUT_S)
    assert checkout.version() == "compiled"
    assert (
        checkout.build_of_cluster() == "Runs plain Python (the next start uses compiled modules)."
    )
    checkout.stop()
    assert checkout.start() == "", "there is nothing to build"
    assert checkout.build_of_cluster() == "Runs compiled."
    assert checkout.run("produce", "--topic", "t", text="hello\n").returncode == 0
    consumed = checkout.run("consume", "--topic", "t", "--from-beginning", "--max-messages", "1")
    assert consumed.stdout == "hello\n", consumed.stderr
    checkout.stop()


def test_a_changed_source_runs_as_plain_python_at_once(built: Checkout) -> None:
    source = built.root / "cluster" / "model" / "ids.py"
    before = source.read_text()
    try:
        source.write_text(f"{before}# changed\n")
        assert built.version() == "plain Python: compiled in the background after the next start"
    finally:
        source.write_text(before)
    assert built.version() == "compiled"


def test_source_runs_unless_the_launcher_asks_for_the_build(checkout: Checkout) -> None:
    assert checkout.run("--version", MILENA_COMPILE="0").stdout.endswith(
        "(plain Python: MILENA_COMPILE=0)\n"
    )


def test_a_failed_build_is_one_line_and_is_not_tried_again(built: Checkout) -> None:
    setup = built.root / "setup.py"
    before = setup.read_text()
    try:
        setup.write_text(f"raise SystemExit('this is broken')\n{before}")
        assert "is being compiled in the background" in built.start()
        wait_until(built.has_failed, "the end of the build", BUILD_TIMEOUT_S)
        assert built.build_of_cluster() == (
            "Runs plain Python (compiling failed: this is broken; see .venv/compiled/log, then try"
            " `bin/cluster compile`)."
        )
        built.stop()
        assert built.start() == ""
        built.stop()
        done = built.run("compile")
        assert done.returncode == 1
        assert "error: compiling failed: this is broken; see " in done.stderr
    finally:
        setup.write_text(before)
        built.run("stop")
    assert built.version() == "compiled"


def test_compile_says_that_there_is_nothing_to_do(built: Checkout) -> None:
    done = built.run("compile")
    assert done.returncode == 0, done.stderr
    assert f"{len(COMPILED)} modules are compiled; clusters use them" in done.stdout
    assert done.stderr == ""


def test_a_machine_without_a_compiler_runs_plain_python(checkout: Checkout) -> None:
    source = checkout.root / "cluster" / "model" / "ids.py"
    before = source.read_text()
    try:
        source.write_text(f"{before}# changed\n")
        missing = {"CC": "no-such-compiler"}
        assert checkout.run("--version", **missing).stdout.endswith(
            "(plain Python: no C compiler: no-such-compiler is missing)\n"
        )
        done = checkout.run("compile", **missing)
        assert done.stderr == "error: cannot compile: no C compiler: no-such-compiler is missing\n"
    finally:
        source.write_text(before)
