"""Log configuration in separate processes: pytest has its own handlers on the root logger."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.runtime.log_file import LOGS_KEPT, rotate_if_large

ROOT = Path(__file__).parents[3]
LIMIT = 4_096


def run(program, log_file, **environment):
    return subprocess.run(
        [sys.executable, "-P", "-c", program, str(log_file)],
        env={"PYTHONPATH": str(ROOT), "MILENA_LOG_MAX_BYTES": str(LIMIT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HEAD = """
import logging, os, sys
from pathlib import Path
from cluster.runtime import logs
log_file = Path(sys.argv[1])
def lead(*outputs):
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for output in outputs:
        os.dup2(descriptor, output)
    os.close(descriptor)
log = logging.getLogger("test")
"""


def lines_of(log_file):
    return log_file.read_text().splitlines()


def test_a_log_is_rotated_while_written_and_a_limited_number_is_kept(tmp_path):
    log_file = tmp_path / "broker-0.log"
    program = """
logs.configure(log_file)
for number in range(500):
    log.info("line %d " + "x" * 100, number)
"""
    assert run(HEAD + program, log_file).returncode == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["broker-0.log", *(f"broker-0.log.{n}" for n in range(1, LOGS_KEPT + 1))]
    assert all(path.stat().st_size < LIMIT + 200 for path in tmp_path.iterdir())
    in_order = [tmp_path / name for name in (*reversed(names[1:]), names[0])]
    numbers = [int(line.split()[5]) for path in in_order for line in lines_of(path)]
    assert numbers == list(range(numbers[0], 500))


def test_standard_streams_that_led_to_the_log_lead_to_the_new_one(tmp_path):
    log_file = tmp_path / "broker-0.log"
    program = """
lead(1, 2)
logs.configure(log_file)
for number in range(500):
    log.info("line %d " + "x" * 100, number)
os.write(1, b"printed by a library\\n")
os.write(2, b"complained by the interpreter\\n")
"""
    assert run(HEAD + program, log_file).stdout == ""
    assert lines_of(log_file)[-2:] == ["printed by a library", "complained by the interpreter"]


def test_output_of_other_writers_counts_toward_the_file_size(tmp_path):
    log_file = tmp_path / "broker-0.log"
    program = """
lead(1, 2)
logs.configure(log_file)
os.write(2, b"x" * 10_000 + b"\\n")
log.info("one")
log.info("two")
"""
    run(HEAD + program, log_file)
    assert len(lines_of(tmp_path / "broker-0.log.1")) == 2
    assert [line.split()[-1] for line in lines_of(log_file)] == ["two"]


def test_standard_streams_that_lead_elsewhere_stay(tmp_path):
    log_file = tmp_path / "supervisor.log"
    program = """
logs.configure(log_file)
for number in range(500):
    log.info("line %d " + "x" * 100, number)
print("for the terminal")
"""
    assert run(HEAD + program, log_file).stdout == "for the terminal\n"


def test_a_fork_neither_rotates_nor_reports_to_its_parents_log(tmp_path):
    log_file = tmp_path / "supervisor.log"
    program = """
logs.configure(log_file)
for number in range(310):
    log.warning("closed %s", number, extra=logs.of_peer("10.0.0.1"))
if not os.fork():
    logs.configure(log_file.with_name("child.log"))
    log.info("child")
    os._exit(0)
os.wait()
logging.shutdown()
"""
    assert run(HEAD + program, log_file, MILENA_LOG_MAX_BYTES="1000000").returncode == 0
    lines = lines_of(log_file)
    said = re.search(
        r'left out (\d+) more lines like "closed %s" because of 10\.0\.0\.1 within \d+ s$',
        lines[-1],
    )
    assert said is not None
    assert len(lines) - 1 + int(said[1]) == 310, "every line is written or counted, once"
    assert len(lines_of(tmp_path / "child.log")) == 1


def test_a_log_that_cannot_be_renamed_grows_on(tmp_path):
    log_file = tmp_path / "broker-0.log"
    for number in (1, 2, 3):
        (tmp_path / f"broker-0.log.{number}").mkdir()
    (tmp_path / "broker-0.log.3" / "mine").touch()
    program = """
logs.configure(log_file)
for number in range(100):
    log.info("line %d " + "x" * 100, number)
"""
    assert run(HEAD + program, log_file).returncode == 0
    assert len(lines_of(log_file)) == 100


def test_a_large_unopened_log_is_rotated(tmp_path):
    log_file = tmp_path / "broker-0.log"
    rotate_if_large(log_file, max_bytes=10)
    log_file.write_text("x" * 9)
    rotate_if_large(log_file, max_bytes=10)
    assert log_file.read_text() == "x" * 9
    for letter in "vwxyz":
        log_file.write_text(letter * 10)
        rotate_if_large(log_file, max_bytes=10)
        assert not log_file.exists()
    kept = {path.name: path.read_text()[0] for path in tmp_path.iterdir()}
    assert kept == {"broker-0.log.1": "z", "broker-0.log.2": "y", "broker-0.log.3": "x"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("MILENA_LOG_LEVEL", "loud"), ("MILENA_LOG_MAX_BYTES", "1GB"), ("MILENA_LOG_MAX_BYTES", "9")],
)
def test_configure_names_an_invalid_setting(tmp_path, name, text):
    done = run(HEAD + "logs.configure(log_file)", tmp_path / "log", **{name: text})
    assert f"UserError: {name} must be" in done.stderr
