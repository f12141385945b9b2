from hypothesis import given
from hypothesis import strategies as st

from cluster.runtime.json_lines import LineBuffer, line


@given(st.lists(st.dictionaries(st.text(), st.integers())), st.integers(1, 20))
def test_messages_arrive_whole_however_a_pipe_cuts_them(messages, step):
    sent = b"".join(map(line, messages))
    buffer = LineBuffer()
    received = []
    for position in range(0, len(sent), step):
        received += buffer.feed(sent[position : position + step])
    assert received == messages
