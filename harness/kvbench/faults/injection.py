"""Makes chosen system calls of a child process fail, without executing them.

The kernel hands each call of the chosen kind to the parent (a seccomp filter with user
notification, see seccomp_unotify(2)). The parent counts the calls of all threads together, and only
those on files in one folder. It lets a call go on, or answers it with an error. Unlike strace, this
costs about 15 us a call, counts over threads, and needs no rights beyond those of the user.

A failed call leaves everything as it was: a failed fsync leaves its pages dirty in the page cache,
where a real device that fails may lose them. Errors of the device are a test of their own.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import mmap
import os
import socket
import struct
from pathlib import Path
from typing import NamedTuple

from kvbench.common.messages import BadInput, listed

AT, FILE, PATH, ALL = "at", "file", "path", "all"  # what the first argument of a call names
CALLS = {  # the system calls of each kind, and how each names its file
    "fsync": {"fsync": FILE},
    "fdatasync": {"fdatasync": FILE},
    "write": {"write": FILE, "writev": FILE},
    "pwrite": {"pwrite64": FILE, "pwritev": FILE, "pwritev2": FILE},
    "truncate": {"ftruncate": FILE, "truncate": PATH, "fallocate": FILE},
    "rename": {"rename": PATH, "renameat": AT, "renameat2": AT},
    "create": {"open": PATH, "openat": AT, "creat": PATH},  # of these, those with O_CREAT
    "msync": {"msync": ALL},  # names memory: only a store maps files in order to write to them
}
FLAGS = {"open": 1, "openat": 2}  # the argument with the flags
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
ONCE, ON = "once", "on"  # only the nth call fails, or the nth and all later ones
OPENING, WRITING, COMPACTING = PHASES = "opening", "writing", "compacting"  # see faults.py

LIBRARY = "libseccomp.so.2"
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000  # SCMP_ACT_
MASKED_EQUAL = 7  # SCMP_CMP_MASKED_EQ
RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_
GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
ASKED, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
HERE = -100  # AT_FDCWD
LONGEST_PATH = 4096


class Fault(NamedTuple):
    """Which call of a program fails, how, and whether all later ones fail, too."""

    call: str
    error: str
    n: int
    repeat: str
    phase: str

    def __str__(self) -> str:
        return " ".join(map(str, self))


def fault_of(text: str) -> Fault:
    """The fault that a text such as "fsync EIO 3 once writing" names; the phase may be left out.
    Raises BadInput."""
    words = text.split()
    if len(words) == len(Fault._fields) - 1:
        words.append(WRITING)
    if len(words) != len(Fault._fields):
        allowed = "a call, an error, a number, once or on, and a phase"
        raise BadInput(f"{text!r:.60} is not a fault; allowed: {allowed}")
    call, error, number, repeat, phase = words
    for word, names in ((call, CALLS), (error, ERRORS), (repeat, (ONCE, ON)), (phase, PHASES)):
        if word not in names:
            raise BadInput(f"{word!r:.40} in {text!r:.60}; allowed: {listed(names, word)}")
    if not (number.isdecimal() and 0 < int(number) < 10**6):
        raise BadInput(f"{number!r:.40} in {text!r:.60}; allowed: a number from 1")
    return Fault(call, error, int(number), repeat, phase)


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("kind", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY)
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def _numbers(call: str) -> dict[int, str]:
    """The system calls of a kind by number. Some systems lack some of them."""
    found = {_library().seccomp_syscall_resolve_name(name.encode()): name for name in CALLS[call]}
    return {number: name for number, name in found.items() if number >= 0}


def _filtered(call: str) -> int:
    """Have the kernel ask before each call of a kind of this thread, and of the threads and
    processes that it starts. Returns the descriptor that asks."""
    library = _library()
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    for number, name in _numbers(call).items():
        creates = Comparison(FLAGS.get(name, 0), MASKED_EQUAL, os.O_CREAT, os.O_CREAT)
        code = library.seccomp_rule_add_array(
            context, ctypes.c_uint32(NOTIFY), number, int(name in FLAGS), ctypes.byref(creates)
        )
        if code:
            raise OSError(-code, os.strerror(-code))
    if code := library.seccomp_load(context):
        raise OSError(-code, os.strerror(-code))
    return int(library.seccomp_notify_fd(context))


@functools.cache
def injecting_fails() -> str:
    """The reason why no call can be made to fail here; empty if one can."""
    try:
        _library()
    except OSError:
        return f"{LIBRARY} is not installed (Debian: libseccomp2)"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(_filtered("msync") < 0)
        finally:
            os._exit(code)
    refused = os.waitpid(child, 0)[1] != 0
    return "the kernel refuses a seccomp filter with user notification" if refused else ""


class Injection:
    """Makes calls of one child fail: see apart(). Afterwards `hits` is the number of calls that
    failed, and `calls` that of the calls counted."""

    def __init__(self, fault: Fault, folder: Path) -> None:
        self.fault, self.hits, self.calls = fault, 0, 0
        self.struck = ""  # the first call that failed, and its file
        self._folder = os.fspath(folder.resolve())
        self._numbers = _numbers(fault.call)
        self._phase = mmap.mmap(-1, 1)  # shared with the child
        self._parent, self._child = socket.socketpair()
        self._asks: int | None = None

    def begin(self) -> None:
        asks = _filtered(self.fault.call)
        socket.send_fds(self._child, [b"-"], [asks])
        os.close(asks)

    def enter(self, phase: str) -> None:
        """Called in the child when a phase begins."""
        self._phase[0] = PHASES.index(phase)

    def files(self) -> list[int]:
        return [self._parent.fileno() if self._asks is None else self._asks]

    def serve(self, file: int) -> None:
        if self._asks is None:
            self._asks = socket.recv_fds(self._parent, 1, 1)[1][0]
            return
        asked = bytearray(ASKED.size)
        with contextlib.suppress(OSError):  # the child was killed meanwhile
            fcntl.ioctl(file, RECEIVE, asked)
            identity, task, _, number, _, _, *arguments = ASKED.unpack(asked)
            name = self._numbers[number]
            path = self._path(task, CALLS[self.fault.call][name], arguments)
            fails = bool(path) and self._due()
            if fails and not self.struck:
                self.struck = f"{name} of {path}"
            code, flag = (-ERRORS[self.fault.error], 0) if fails else (0, GO_ON)
            fcntl.ioctl(file, SEND, ANSWER.pack(identity, 0, code, flag))

    def close(self) -> None:
        self._parent.close()
        self._child.close()
        if self._asks is not None:
            os.close(self._asks)
        self._phase.close()

    def _due(self) -> bool:
        """Count a call, and return whether it fails."""
        if self._phase[0] == PHASES.index(self.fault.phase):
            self.calls += 1
            due = self.calls == self.fault.n
        else:
            due = False
        due = due or (self.fault.repeat == ON and self.hits > 0)
        self.hits += due
        return due

    def _path(self, task: int, kind: str, arguments: list[int]) -> str:
        """The path of a file below the folder; empty for other files."""
        try:
            path = _path_of(task, kind, arguments)
        except OSError:  # not an open descriptor: the call will fail by itself
            return ""
        if kind == ALL:
            return path
        below = path == self._folder or path.startswith(f"{self._folder}/")
        return os.path.relpath(path, self._folder) if below else ""


def _path_of(task: int, kind: str, arguments: list[int]) -> str:
    if kind == ALL:
        return "a map"
    if kind == FILE:
        return _file_of(task, arguments[0])
    given = _text_at(task, arguments[1 if kind == AT else 0])
    below = "" if given[:1] == "/" else _file_of(task, arguments[0] if kind == AT else HERE)
    return os.path.normpath(os.path.join(below, given))


def _file_of(task: int, descriptor: int) -> str:
    """The path of a descriptor of a task, or of its working directory."""
    number = ctypes.c_int(descriptor).value
    return os.readlink(f"/proc/{task}/cwd" if number == HERE else f"/proc/{task}/fd/{number}")


def _text_at(task: int, address: int) -> str:
    """A text that ends with NUL in the memory of a task."""
    with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
        found = os.pread(memory.fileno(), LONGEST_PATH, address)
    return os.fsdecode(found.partition(b"\0")[0])
