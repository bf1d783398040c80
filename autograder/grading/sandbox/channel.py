"""A socket to the referee that the student's code in the same process cannot use.

Its descriptor has a number above the limit on open files, and the kernel asks for a secret in each
call on it (`seccomp`). The secret is a local variable of functions that only one thread holds.
"""

import ctypes
import errno
import os
import secrets
from collections.abc import Callable

from autograder.grading.sandbox import framing, seccomp

DESCRIPTOR = 1000  # above the limit on open files of a student process
BUFFER = (ctypes.c_char_p, ctypes.c_size_t)
Frames = tuple[bytes, ...]
Receive = Callable[[], Frames]
Send = Callable[[Frames], None]


def move_out_of_reach(descriptor: int) -> int:
    """Move a descriptor above the limit on open files; child programs do not inherit it."""
    os.dup2(descriptor, DESCRIPTOR, inheritable=False)
    os.close(descriptor)
    return DESCRIPTOR


def open_locked(descriptor: int) -> tuple[Receive, Send]:
    """Functions that receive and send a message; `framing` has the format.

    From now on only they can use the descriptor. They use no global name, which a student's code
    could rebind.
    """
    secret = 1 + secrets.randbelow(2**31 - 1)
    seccomp.install_filter(descriptor, secret)
    libc = ctypes.CDLL(None, use_errno=True)
    recvfrom, sendto, last_error = libc.recvfrom, libc.sendto, ctypes.get_errno
    recvfrom.argtypes = [ctypes.c_int, *BUFFER, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    sendto.argtypes = [ctypes.c_int, *BUFFER, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32]
    recvfrom.restype = sendto.restype = ctypes.c_ssize_t
    interrupted, gone, size_of, most = errno.EINTR, EOFError, len, framing.MAX_CHUNK_BYTES
    buffer, length = ctypes.create_string_buffer(most), framing.LENGTH

    def exactly(count: int) -> bytes:
        got = b""
        while count:
            read = recvfrom(descriptor, buffer, count if count < most else most, 0, None, secret)
            if read > 0:
                got += buffer.raw[:read]
                count -= read
            elif read == 0 or last_error() != interrupted:
                raise gone
        return got

    def receive() -> Frames:
        note = exactly(length.unpack(exactly(length.size))[0])
        text = exactly(length.unpack(exactly(length.size))[0])
        return note, text, exactly(length.unpack(exactly(length.size))[0])

    def send(message: Frames) -> None:
        for frame in message:
            for part in (length.pack(size_of(frame)), frame):
                start = 0
                while start < size_of(part):
                    some = part[start : start + most]
                    sent = sendto(descriptor, some, size_of(some), 0, None, secret)
                    if sent > 0:
                        start += sent
                    elif last_error() != interrupted:
                        raise gone

    return receive, send
