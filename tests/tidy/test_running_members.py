"""What members in processes of their own tell."""

from tests.support.running_members import events_told


def test_a_line_in_the_middle_of_which_a_program_was_killed_is_left_out():
    lines = [b'{"event": "assigned"}\n', b'{"event": "rec']
    assert list(events_told(lines)) == [{"event": "assigned"}]
