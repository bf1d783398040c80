"""How does a student process talk, so that the code that it runs can neither listen nor speak?

The descriptor lies above all that a program gets, and the kernel wants a secret with each call on
it (`calls`). The secret is a local variable of functions that only the talking thread holds.
"""

import ctypes
import errno
import os
import secrets
from collections.abc import Callable

from autograder.grading.sandbox import framing, seccomp

PLACE = 1000  # above the limit on open files that a student process has
BUFFER = (ctypes.c_char_p, ctypes.c_size_t)
Frames = tuple[bytes, ...]
Listen = Callable[[], Frames]
Speak = Callable[[Frames], None]


def lift(descriptor: int) -> int:
    """The descriptor at its place out of reach; no program that is started later gets it."""
    os.dup2(descriptor, PLACE, inheritable=False)
    os.close(descriptor)
    return PLACE


def locked(descriptor: int) -> tuple[Listen, Speak]:
    """Functions that receive a message, and send one; see `frames` for its form.

    They use no name of any module, which a student's code could give another meaning.
    """
    secret = 1 + secrets.randbelow(2**31 - 1)
    seccomp.refuse(descriptor, secret)
    libc = ctypes.CDLL(None, use_errno=True)
    receive, send, last_error = libc.recvfrom, libc.sendto, ctypes.get_errno
    receive.argtypes = [ctypes.c_int, *BUFFER, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    send.argtypes = [ctypes.c_int, *BUFFER, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32]
    receive.restype = send.restype = ctypes.c_ssize_t
    again, gone, size_of, most = errno.EINTR, EOFError, len, framing.MAX_CHUNK_BYTES
    buffer, length = ctypes.create_string_buffer(most), framing.LENGTH

    def exactly(count: int) -> bytes:
        got = b""
        while count:
            read = receive(descriptor, buffer, count if count < most else most, 0, None, secret)
            if read > 0:
                got += buffer.raw[:read]
                count -= read
            elif read == 0 or last_error() != again:
                raise gone
        return got

    def listen() -> Frames:
        note = exactly(length.unpack(exactly(length.size))[0])
        text = exactly(length.unpack(exactly(length.size))[0])
        return note, text, exactly(length.unpack(exactly(length.size))[0])

    def speak(message: Frames) -> None:
        for frame in message:
            for part in (length.pack(size_of(frame)), frame):
                start = 0
                while start < size_of(part):
                    some = part[start : start + most]
                    sent = send(descriptor, some, size_of(some), 0, None, secret)
                    if sent > 0:
                        start += sent
                    elif last_error() != again:
                        raise gone

    return listen, speak
