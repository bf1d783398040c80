"""Plain data through a socket whose other end may lie, stall or send one byte at a time."""

import socket
import threading
import time

import pytest
import torch

from autograder.grading.sandbox import framing


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def receive(end, seconds=5.0):
    return framing.receive(end, seconds)


@pytest.mark.parametrize("value", [None, 3, "ä", [1, (2, 3)], {"a": {"b": float("inf")}}])
def test_plain_data_comes_as_it_went(ends, value):
    framing.send(ends[0], value, seconds=5)
    assert receive(ends[1]) == value


def test_tensors_come_as_they_went(ends):
    framing.send(ends[0], {"x": torch.arange(6.0).reshape(2, 3)}, seconds=5)
    assert torch.equal(receive(ends[1])["x"], torch.arange(6.0).reshape(2, 3))


def test_more_than_a_socket_holds_comes_through(ends):
    value = list(range(50_000))
    thread = threading.Thread(target=framing.send, args=(ends[0], value, 5))
    thread.start()
    assert receive(ends[1]) == value
    thread.join()


def test_a_closed_end_is_told(ends):
    ends[0].close()
    with pytest.raises(EOFError):
        receive(ends[1])


def test_an_end_within_a_frame_is_told(ends):
    ends[0].sendall(framing.LENGTH.pack(100) + b"short")
    ends[0].close()
    with pytest.raises(EOFError):
        receive(ends[1])


def test_a_length_beyond_the_bound_is_not_waited_for(ends):
    ends[0].sendall(framing.LENGTH.pack(2**40))
    with pytest.raises(OSError, match=r"1,099,511,627,776 bytes, where 33,554,432"):
        receive(ends[1])


def test_silence_ends_in_time(ends):
    with pytest.raises(TimeoutError):
        receive(ends[1], seconds=0.05)


def test_dripping_ends_in_time(ends):
    def drip():
        with ends[0]:
            for _ in range(100):
                time.sleep(0.01)
                try:
                    ends[0].sendall(b"\0")
                except OSError:
                    return

    ends[0].sendall(framing.LENGTH.pack(1000))
    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(TimeoutError):
        receive(ends[1], seconds=0.2)
    ends[1].close()
    thread.join()


def test_who_does_not_read_is_not_waited_for(ends):
    with pytest.raises(TimeoutError):
        framing.send(ends[0], "x" * 900_000, seconds=0.05)


@pytest.mark.parametrize("text", [b"{", b"\xff", b'{"$tensor": "0"}', b"[" * 100_000])
def test_what_is_no_plain_data_is_an_error(ends, text):
    for frame in (text, b""):
        ends[0].sendall(framing.LENGTH.pack(len(frame)) + frame)
    with pytest.raises((ValueError, KeyError, RecursionError)):
        receive(ends[1])
