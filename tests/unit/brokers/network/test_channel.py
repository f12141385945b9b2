"""One connection over a socket pair: frames, answers, mute reasons, errors."""

import os
import socket
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.network.channel import BUFFERS_AHEAD_MAX, Channel
from cluster.brokers.network.connection import FileRegion, MuteReason, Outgoing
from cluster.model.errors import PeerError, StorageFailed
from tests.support.channel_stage import SCRATCH_BYTES, ChannelStage, framed
from tests.support.examples import examples


class Region:
    """A part of a file."""

    def __init__(self, path: Path, position: int, size_bytes: int) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)
        self.position = position
        self.size_bytes = size_bytes

    def __del__(self) -> None:
        os.close(self.descriptor)

    def fileno(self) -> int:
        return self.descriptor

    def view(self) -> memoryview:
        content = os.pread(self.fileno(), self.size_bytes, self.position)
        assert len(content) == self.size_bytes
        return memoryview(content)


@pytest.fixture
def server() -> Iterator[ChannelStage]:
    server = ChannelStage()
    yield server
    server.stop()


def fill(server: ChannelStage, payload: bytes) -> None:
    """Make the channel write more than the socket takes."""
    server.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    server.process = lambda channel, _: channel.respond([payload])


# Receiving


@examples(40)
@given(
    payloads=st.lists(st.binary(max_size=4_000).map(lambda each: each * 20), max_size=8),
    cuts=st.lists(st.integers(1, 2 * SCRATCH_BYTES), min_size=1, max_size=30),
)
def test_frames_arrive_whole_and_in_order_however_they_are_cut(payloads, cuts):
    server = ChannelStage()
    stream = b"".join(map(framed, payloads))
    position = number = 0
    while position < len(stream):
        end = min(position + cuts[number % len(cuts)], len(stream))
        server.client.sendall(stream[position:end])
        server.turn(2)
        position, number = end, number + 1
    assert server.drain() == stream
    assert server.frames == payloads
    assert server.buffers_out == server.backlog_bytes == 0
    assert server.channel.is_open
    server.stop()


def test_a_frame_may_be_a_single_byte_at_a_time(server):
    for byte in framed(b"slow") + framed(b"") + framed(b"x"):
        server.client.sendall(bytes([byte]))
        server.turn()
    assert server.frames == [b"slow", b"", b"x"]


@pytest.mark.parametrize("size", [-1, -(2**31), 1_000_001, 2**31 - 1])
def test_a_size_that_no_request_has_closes_the_connection(server, size):
    server.client.sendall(struct.pack(">i", size))
    server.turn()
    assert server.closed == [
        f"request size {size} is not within 0..1000000 bytes (socket.request.max.bytes)"
    ]
    assert server.client.recv(1) == b""


def test_requests_before_the_bad_one_are_processed_and_none_after_it(server):
    server.client.sendall(framed(b"good") + struct.pack(">i", -5) + framed(b"never"))
    server.turn()
    assert server.frames == [b"good"]
    assert len(server.closed) == 1


def test_closing_between_two_requests_is_no_fault(server):
    server.client.sendall(framed(b"x"))
    server.turn()
    server.client.close()
    server.turn(2)
    assert server.closed == [None]


@pytest.mark.parametrize("part", [b"\0\0", struct.pack(">i", 100) + b"half"])
def test_closing_in_the_middle_of_a_request_is_a_fault(server, part):
    server.client.sendall(part)
    server.turn()
    server.client.close()
    server.turn()
    assert server.closed == ["closed in the middle of a request"]
    assert server.buffers_out == 0


def test_a_peer_error_in_a_large_frame_closes_the_channel(server):
    def refuse(channel: Channel, frame: bytes) -> None:
        raise PeerError("I do not understand")

    server.process = refuse
    server.client.sendall(framed(b"x" * 2 * SCRATCH_BYTES))
    server.turn(4)
    assert server.closed == ["I do not understand"]
    assert server.buffers_out == 0


def test_a_bug_while_a_frame_is_processed_is_not_hidden(server):
    def broken(channel: Channel, frame: bytes) -> None:
        raise ZeroDivisionError

    server.process = broken
    server.client.sendall(framed(b"x"))
    with pytest.raises(ZeroDivisionError):
        server.turn()


# Order and mute reasons


def test_one_request_at_a_time_and_answers_in_order(server):
    server.process = lambda channel, frame: None
    server.client.sendall(b"".join(framed(b"%d" % n) for n in range(5)))
    for number in range(5):
        server.turn(2)
        assert server.frames == [b"%d" % n for n in range(number + 1)]
        assert server.channel.mute_reasons == MuteReason.RESPONSE_PENDING
        server.channel.respond([framed(b"answer %d" % number)])
    assert server.channel.mute_reasons == 0
    assert server.drain() == b"".join(framed(b"answer %d" % n) for n in range(5))


def test_a_muted_channel_is_not_read(server):
    server.channel.mute(MuteReason.QUOTA)
    server.client.sendall(framed(b"x"))
    server.turn(3)
    assert server.frames == []
    server.channel.unmute(MuteReason.QUOTA)
    server.turn()
    assert server.frames == [b"x"]


def test_every_reason_must_go_before_the_channel_is_read_on(server):
    def throttle(channel: Channel, frame: bytes) -> None:
        channel.mute(MuteReason.QUOTA)
        channel.respond([framed(frame)])

    server.process = throttle
    server.client.sendall(framed(b"first") + framed(b"second"))
    server.turn(2)
    server.channel.mute(MuteReason.MEMORY)
    assert server.client.recv(100) == framed(b"first")  # a throttled answer is sent at once
    server.channel.unmute(MuteReason.QUOTA)
    server.turn(2)
    assert server.frames == [b"first"]
    server.channel.unmute(MuteReason.MEMORY)
    assert server.frames == [b"first", b"second"]


def test_memory_of_a_request_is_counted_until_its_answer(server):
    server.process = lambda channel, frame: channel.hold(12_345)
    server.client.sendall(framed(b"1"))
    server.turn()
    assert server.held_bytes == 12_345
    server.channel.respond([framed(b"a")])
    assert server.held_bytes == 0


def test_unmuting_for_a_reason_that_is_not_set_changes_nothing(server):
    server.process = lambda channel, frame: None
    server.client.sendall(framed(b"1") + framed(b"2"))
    server.turn()
    server.channel.unmute(MuteReason.QUOTA)
    server.turn()
    assert server.frames == [b"1"]


def test_a_request_without_an_answer_lets_the_next_one_follow(server):
    server.process = lambda channel, frame: channel.respond(None)
    server.client.sendall(framed(b"1") + framed(b"2"))
    server.turn()
    assert server.frames == [b"1", b"2"]
    assert server.drain() == b""


def test_a_large_frame_keeps_its_received_bytes_while_it_waits_for_memory(server):
    server.memory_is_short = True
    payload = b"y" * 3 * SCRATCH_BYTES
    server.client.sendall(framed(b"x") + framed(payload) + framed(b"z"))
    server.turn(5)
    assert server.frames == [b"x"]
    assert server.channel.mute_reasons == MuteReason.MEMORY
    server.memory_is_short = False
    server.channel.unmute(MuteReason.MEMORY)
    assert server.drain() == framed(b"x") + framed(payload) + framed(b"z")
    assert server.buffers_out == 0


def test_a_buffer_grows_with_received_not_announced_bytes(server):
    payload = b"y" * 900_000
    frame = framed(payload)
    server.client.sendall(frame[:100_000])
    server.turn(10)
    assert server.buffers_out == 1
    assert server.largest_buffer <= 200_000
    server.client.setblocking(False)
    position = 100_000
    while position < len(frame):
        position += server.client.send(frame[position : position + 50_000])
        server.turn(3)
        assert server.largest_buffer <= 2 * position
    assert server.drain() == frame


def test_a_few_bytes_of_a_large_request_take_no_buffer(server):
    server.client.sendall(struct.pack(">i", 1_000_000) + b"x" * 1_000)
    server.turn(3)
    assert (server.buffers_out, server.backlog_bytes) == (0, 1_004)
    server.channel.close(None)
    assert server.backlog_bytes == 0


def test_channel_announces_the_rest_of_a_request_to_the_transport(server):
    request = framed(b"x" * 50_000)
    server.client.sendall(request[:1_000])
    server.turn()
    assert server.transport.expected == [49_004]
    server.client.sendall(request[1_000:20_000])
    server.turn()
    assert server.transport.expected[-1] == 30_004
    server.client.sendall(request[20_000:] + framed(b"small"))
    server.turn(3)
    assert server.frames == [request[4:], b"small"]
    assert server.transport.expected[-1] == 30_004


def test_a_buffer_that_may_not_grow_mutes_the_channel_until_it_may(server):
    payload = b"y" * 100_000
    server.client.sendall(framed(payload)[:25_000])
    server.turn(3)
    server.memory_is_short = True
    server.client.sendall(framed(payload)[25_000:])
    server.turn(5)
    assert server.channel.mute_reasons == MuteReason.MEMORY
    server.memory_is_short = False
    server.channel.unmute(MuteReason.MEMORY)
    assert server.drain() == framed(payload)


def test_a_late_answer_may_bring_the_request_that_breaks_the_protocol(server):
    server.process = lambda channel, frame: None
    server.client.sendall(framed(b"1") + struct.pack(">i", -1))
    server.turn()
    server.channel.respond([framed(b"a")])
    assert server.closed
    assert server.client.recv(100) == framed(b"a")


# Sending


def test_answers_larger_than_the_socket_buffer_arrive_whole(server):
    payload = bytes(range(256)) * 4000
    fill(server, payload)
    server.client.sendall(framed(b"x"))
    assert server.drain() == payload
    server.turn(1)
    server.client.sendall(framed(b"x"))  # the channel reads again
    assert server.drain() == payload


def test_many_small_buffers_more_than_one_system_call_takes_arrive_in_order(server):
    buffers: list[Outgoing] = [struct.pack(">i", n) for n in range(5_000)]
    buffers[100] = b""
    buffers[200] = bytearray(b"bytearray")
    buffers[300] = memoryview(b"view")
    server.process = lambda channel, frame: channel.respond(list(buffers))
    server.client.sendall(framed(b"x"))
    assert server.drain() == b"".join(map(bytes, buffers))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [10, 64 * 1024, 64 * 1024 + 1, 700_000])
def test_a_file_region_is_sent_between_bytes(server, size, tmp_path):
    path = tmp_path / "segment"
    content = os.urandom(size + 20)
    path.write_bytes(content)
    region: FileRegion = Region(path, 10, size)
    small: FileRegion = Region(path, 0, 5)
    server.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    server.process = lambda channel, frame: channel.respond([b"head", region, small, b"tail"])
    server.client.sendall(framed(b"x"))
    assert server.drain() == b"head" + content[10 : size + 10] + content[:5] + b"tail"


def test_a_rest_of_a_region_may_be_small_enough_for_the_mapping(server, tmp_path):
    path = tmp_path / "segment"
    content = os.urandom(200_000)
    path.write_bytes(content)
    server.transport.file_bytes_at_once = 150_000
    server.process = lambda channel, frame: channel.respond([Region(path, 0, 200_000), b"tail"])
    server.client.sendall(framed(b"x"))
    assert server.drain() == content + b"tail"


def test_a_file_region_leaves_in_thousands_of_parts(server, tmp_path):
    path = tmp_path / "segment"
    content = os.urandom(500_000)
    path.write_bytes(content)
    server.transport.file_bytes_at_once = 100
    server.process = lambda channel, frame: channel.respond([Region(path, 0, 500_000)])
    server.client.sendall(framed(b"x"))
    assert server.drain() == content


def test_the_rest_of_a_partly_sent_small_region_is_copied(server, tmp_path):
    path = tmp_path / "segment"
    content = os.urandom(60_000)
    path.write_bytes(content)
    server.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    region: FileRegion = Region(path, 0, 60_000)
    of_region = weakref.ref(region)
    kept: list[Outgoing] = [region]
    del region
    server.process = lambda channel, frame: channel.respond(kept)
    server.client.sendall(framed(b"x"))
    server.turn(3)
    kept.clear()
    assert server.unsent[-1] > 0
    assert of_region() is None
    assert server.drain() == content


@pytest.mark.parametrize("size", [10_000, 300_000])
def test_channel_reports_unsent_regions_of_deleted_files(server, size, tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(size))
    server.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    answer = [b"x" * 100_000, Region(path, 0, size)]
    server.process = lambda channel, frame: channel.respond(answer)
    server.client.sendall(framed(b"x"))
    server.turn(3)
    assert not server.channel.holds_deleted_file
    path.unlink()
    assert server.channel.holds_deleted_file
    server.drain()
    assert not server.channel.holds_deleted_file


def test_a_file_that_ends_before_its_region_closes_the_connection(server, tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 100_000)
    server.process = lambda channel, frame: channel.respond([Region(path, 0, 200_000)])
    server.client.sendall(framed(b"x"))
    server.drain()
    assert server.closed == ["the file ended before the announced region"]


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_a_region_that_cannot_be_read_closes_the_connection(server, size):
    class Lost:
        position = 0
        size_bytes = size

        def fileno(self):
            raise StorageFailed("cannot open 0.log: Too many open files")

        def view(self):
            self.fileno()

    server.process = lambda channel, frame: channel.respond([b"head", Lost()])
    server.client.sendall(framed(b"fetch"))
    server.turn()

    assert server.closed == ["cannot open 0.log: Too many open files"]


def test_a_client_that_does_not_read_its_answers_is_not_read_either(server):
    fill(server, b"a" * 1_000_000)
    server.client.sendall(framed(b"1"))
    server.turn(3)
    server.client.sendall(framed(b"2"))
    server.turn(3)
    assert server.frames == [b"1"]
    assert len(server.drain()) == 2_000_000
    assert server.frames == [b"1", b"2"]


def test_pipelined_requests_wait_while_the_answers_before_them_cannot_be_written(server):
    fill(server, b"a" * 10_000)
    requests = [b"%d" % n for n in range(SCRATCH_BYTES // 8)]
    server.client.sendall(b"".join(map(framed, requests)))
    server.turn(5)
    assert len(server.frames) <= BUFFERS_AHEAD_MAX
    started = len(server.frames)
    server.client.sendall(framed(b"the last"))
    server.turn(5)
    assert len(server.frames) == started
    assert len(server.drain()) == 10_000 * (len(requests) + 1)
    assert server.frames == [*requests, b"the last"]


def test_no_more_bytes_of_answers_pile_up_than_the_limit(server):
    """Small requests may ask for large answers that the client never reads."""
    fill(server, b"a" * 20_000)
    server.client.sendall(framed(b"x") * 400)
    server.turn(5)
    assert len(server.frames) <= 10
    assert max(server.unsent) <= 64 * 1024 + 20_000
    assert len(server.drain()) == 400 * 20_000
    assert server.unsent[-1] == 0


def test_no_more_answers_pile_up_than_the_limit(server):
    waiting = 0
    longest = 0

    def answer(channel: Channel, frame: bytes) -> None:
        nonlocal waiting, longest
        channel.respond([framed(frame)])
        waiting += 1
        longest = max(longest, waiting)

    def sent() -> None:
        nonlocal waiting
        waiting = 0

    server.process = answer
    server.on_send = sent
    stream = b"".join(framed(b"%d" % n) for n in range(2 * BUFFERS_AHEAD_MAX))
    server.client.sendall(stream)
    assert server.drain() == stream
    assert longest == BUFFERS_AHEAD_MAX


# The end


def test_an_answer_after_the_client_left_is_dropped(server):
    server.process = lambda channel, frame: None
    server.client.sendall(framed(b"x"))
    server.turn()
    server.client.close()
    server.channel.respond([framed(b"late")] * 2)
    server.turn(2)
    assert len(server.closed) == 1
    server.channel.respond([framed(b"later")])
    server.channel.unmute(MuteReason.QUOTA)
    assert not server.channel.is_open


def test_closing_forgets_the_request_that_waits(server):
    forgotten: list[bool] = []

    def park(channel: Channel, frame: bytes) -> None:
        channel.on_close = lambda: forgotten.append(True)

    server.process = park
    server.client.sendall(framed(b"x"))
    server.turn()
    server.channel.close("enough")
    server.channel.close("twice")
    assert forgotten == [True]
    assert server.closed == ["enough"]


def test_an_answered_request_is_not_forgotten_again_at_the_close(server):
    forgotten: list[bool] = []
    server.process = lambda channel, frame: None
    server.client.sendall(framed(b"x"))
    server.turn()
    server.channel.on_close = lambda: forgotten.append(True)
    server.channel.respond([framed(b"done")])
    server.channel.close(None)
    assert forgotten == []


def test_a_handler_may_close_the_channel_it_answers(server):
    server.process = lambda channel, frame: channel.close("go away")
    server.client.sendall(framed(b"1") + framed(b"2"))
    server.turn(2)
    assert server.frames == [b"1"]
    assert server.closed == ["go away"]


def test_activity_is_reading_and_writing(server):
    server.clock.pass_time(500)
    server.client.sendall(framed(b"x"))
    server.turn()
    assert server.channel.last_active_ms == server.clock.now_ms
