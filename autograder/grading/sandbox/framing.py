"""Send and receive plain data through a socket whose other end is not trusted.

A message is two frames, each after its length in eight bytes: JSON and tensors.
"""

import socket
import struct
import time

from autograder.checking import plain_data
from autograder.checking.plain_data import Message, Plain

LENGTH = struct.Struct(">Q")
MAX_CHUNK_BYTES = 2**20
MAX_JSON_BYTES = 2**25  # in memory it takes up to fifty times as much
MAX_TENSOR_BYTES = 2**28 + 2**20


def packed(value: Plain) -> tuple[bytes, bytes]:
    """The two frames of plain data."""
    message = plain_data.pack(value)
    return message.json.encode(), message.tensors


def unpacked(text: bytes, tensors: bytes) -> Plain:
    """The plain data in two frames.

    Raises:
        ValueError: If they hold none. Hostile frames may raise other errors, too.
    """
    return plain_data.unpack(Message(text.decode(), tensors))


def send(connection: socket.socket, value: Plain, seconds: float) -> None:
    """Send plain data.

    Raises:
        OSError: If the other side is gone or does not read in time.
    """
    connection.settimeout(seconds)
    for frame in packed(value):
        connection.sendall(LENGTH.pack(len(frame)))
        connection.sendall(frame)


def receive(connection: socket.socket, seconds: float) -> Plain:
    """The plain data that comes next.

    Raises:
        EOFError: If the other side is gone.
        OSError: If it takes more time or bytes than allowed.
        ValueError: As `unpacked` does.
    """
    deadline = time.monotonic() + seconds
    text = _frame(connection, MAX_JSON_BYTES, deadline)
    return unpacked(text, _frame(connection, MAX_TENSOR_BYTES, deadline))


def _frame(connection: socket.socket, max_bytes: int, deadline: float) -> bytes:
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size, deadline))
    if length > max_bytes:
        raise OSError(f"a frame of {length:,} bytes, where {max_bytes:,} are allowed")
    return _exactly(connection, length, deadline)


def _exactly(connection: socket.socket, num_bytes: int, deadline: float) -> bytes:
    parts, missing = [], num_bytes
    while missing:
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        part = connection.recv(min(missing, MAX_CHUNK_BYTES))
        if not part:
            raise EOFError
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
