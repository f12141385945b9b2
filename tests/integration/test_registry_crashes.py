"""kill -9 of the registry at any instant loses no acknowledged write, and tears none apart."""

import subprocess
import sys
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).parents[2]
ROUNDS = 200


def test_hundreds_of_kills_lose_nothing(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(1 << 32)
    command = [sys.executable, "-m", "tests.integration.registry_crashes"]
    command += [str(tmp_path / "registry"), str(ROUNDS), str(seed)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr[-5_000:]}"
    rounds, writes = map(int, done.stdout.split())
    assert rounds == ROUNDS
    assert writes > 10 * ROUNDS, "the clients had hardly a chance to write"
