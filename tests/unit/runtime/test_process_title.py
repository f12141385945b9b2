"""Processes have names that fit the room that there is."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.runtime.process_title import short_name, title_of


def test_title_names_the_process_and_as_much_of_the_directory_as_fits():
    data_dir = Path("/srv/milena/var")
    assert title_of("broker 1", data_dir, 80) == "milena: broker 1 (/srv/milena/var)"
    assert title_of("broker 1", data_dir, 24) == "milena: broker 1 (var)"
    assert title_of("broker 1", data_dir, 10) == "milena: broker 1"


def test_short_name_has_at_most_15_characters():
    assert short_name("broker 1") == "milena:broker 1"
    assert short_name("broker 12") == "broker 12"
    assert short_name("supervisor") == "supervisor"
    assert short_name("registry") == "milena:registry"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these names")
def test_process_shows_its_name():
    program = (
        "import pathlib; from cluster.runtime.process_title import name_process;"
        "name_process('broker 7', pathlib.Path('/x'));"
        "p = pathlib.Path('/proc/self'); print((p / 'comm').read_text().strip());"
        "print((p / 'cmdline').read_bytes().rstrip(b'\\0').decode())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["milena:broker 7", "milena: broker 7 (/x)"], done.stderr
