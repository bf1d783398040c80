"""Plain data through a socket whose other end may lie, stall or drip.

A message is two frames, JSON and tensors, each behind its length in eight bytes.
"""

import socket
import struct
import time

from course_utils.checks import wire
from course_utils.checks.wire import Message, Plain

LENGTH = struct.Struct(">Q")
MAX_BYTES = 2**29
MAX_CHUNK_BYTES = 2**20


def send(connection: socket.socket, value: Plain, seconds: float | None = None) -> None:
    """Send plain data.

    Raises:
        OSError: If the other side is gone or does not take it in time.
    """
    connection.settimeout(seconds)
    for frame in _frames(wire.pack(value)):
        connection.sendall(LENGTH.pack(len(frame)))
        connection.sendall(frame)


def receive(
    connection: socket.socket, max_bytes: int = MAX_BYTES, seconds: float | None = None
) -> Plain:
    """The plain data that comes next.

    Raises:
        EOFError: If the other side is gone.
        OSError: If it takes more time or more bytes than allowed.
        ValueError: If it is no plain data; whoever has no trust in the other side expects other
            errors of reading as well.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    text = _frame(connection, max_bytes, deadline).decode()
    return wire.unpack(Message(text, _frame(connection, max_bytes, deadline)))


def _frames(message: Message) -> tuple[bytes, bytes]:
    return message.json.encode(), message.tensors


def _frame(connection: socket.socket, max_bytes: int, deadline: float | None) -> bytes:
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size, deadline))
    if length > max_bytes:
        raise OSError(f"a frame of {length:,} bytes, where {max_bytes:,} are allowed")
    return _exactly(connection, length, deadline)


def _exactly(connection: socket.socket, num_bytes: int, deadline: float | None) -> bytes:
    parts, missing = [], num_bytes
    while missing:
        if deadline is not None:
            connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        part = connection.recv(min(missing, MAX_CHUNK_BYTES))
        if not part:
            raise EOFError
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
