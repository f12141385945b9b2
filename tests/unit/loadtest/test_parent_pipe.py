"""The worker's end of the pipes keeps every command if several arrive in one read."""

import os

from cluster.loadtest.parent_pipe import ParentPipe
from cluster.runtime.json_lines import line


def test_a_stop_that_comes_with_go_is_kept():
    commands, commander = os.pipe()
    told, teller = os.pipe()
    os.write(commander, line({"command": "go", "start_us": 7}) + line({"command": "stop"}))
    pipe = ParentPipe(commands, teller)
    assert pipe.await_go() == 7
    assert pipe.commands() == [{"command": "stop"}]
    assert pipe.commands() == []
    for descriptor in (commands, commander, told, teller):
        os.close(descriptor)
