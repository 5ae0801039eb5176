"""Follows what a program does to files: which it writes, which it syncs, and what stays unsynced.

A file is identified by itself and not by its path, so a sync counts for all its names. strace
prints only paths, and an inode number that is looked up after a call may belong to another file by
then. We therefore follow names through the calls that create, move and remove them. We look up only
three facts: the inode of a file that existed before and has other names, when it is first opened;
the device of each file; and whether an open has created the file.

A change is a write, a copy in the kernel, a truncation, or the addition or removal of a name in a
folder. A file without a name needs no sync, since nothing keeps it. A sync covers the changes that
ended before it began: fsync and fdatasync those of their file or folder, syncfs those of its file
system, sync all, and a write with O_DSYNC its own bytes. sync_file_range covers nothing, since it
flushes neither the file's metadata nor the device's cache. Neither does msync, since changes
through a map are not visible.
"""

import ctypes
import itertools
import os
import re
import stat
import struct
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvbench.durability.strace import FORKS, READS, UNTRACED, WRITES, Call, End, unescaped

SYNCS = ("fsync", "fdatasync", "msync", "syncfs", "sync", "O_DSYNC")
COPIES = {"copy_file_range": 2, "splice": 2, "sendfile": 0, "sendfile64": 0}  # index of the target
SIZES = ("ftruncate", "ftruncate64", "fallocate")
NAMES = (
    "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "symlink",
    "symlinkat", "mkdir", "mkdirat", "mknod", "mknodat",
)  # fmt: skip
OPENS = ("open", "openat", "openat2", "creat", "open_by_handle_at")
UNSEEN = {"io_uring_setup": "io_uring", "io_setup": "libaio"}
ROOTS = ("chroot", "pivot_root", "setns", "mount", "move_mount")
CALLS = tuple(
    f"?{name}"  # "?": not every architecture has each call
    for name in (
        *WRITES, *COPIES, *SIZES, *NAMES, *OPENS, *UNSEEN, *ROOTS, *FORKS,
        "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "truncate", "mmap",
        "mmap2", "mprotect", "pkey_mprotect", "close", "close_range", "dup", "dup2", "dup3",
        "fcntl", "fcntl64", "ioctl", "execve", "execveat", "chdir", "fchdir", "unshare", "recvmsg",
        "recvmmsg", "pidfd_getfd", "connect",
    )
)  # fmt: skip
WRITE, SIZE, NAME = "write", "size", "name"  # kinds of changes
EACH_WRITE = re.compile(r"\bO_D?SYNC\b")  # flags that fcntl cannot set later
RWF_EACH = 0x2 | 0x4  # RWF_DSYNC, RWF_SYNC
WRITABLE = re.compile(r"\bO_(WRONLY|RDWR)\b")
KEPT = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFBLK)
NO_FILE = re.compile(r"/(proc|sys|memfd:)")
PROC_FD = re.compile(r"/(?:proc/(?:self|thread-self|\d+)|dev)/fd/(\d+)")
COARSE = 0.01  # seconds: a file system's clock may lag by as much
STATX = struct.Struct("=80xqI")  # where statx stores the time of creation

_library = ctypes.CDLL(None, use_errno=True)


def _born(path: str) -> float | None:
    """The time at which a file was created; None if its file system does not state it."""
    found = ctypes.create_string_buffer(256)
    if _library.statx(-100, os.fsencode(path), 0, 0x800, found) != 0:
        return None
    seconds, nanoseconds = STATX.unpack_from(found)
    return seconds + nanoseconds / 1e9 if struct.unpack_from("=I", found)[0] & 0x800 else None


@dataclass(eq=False)
class File:
    """A file, or a folder as a list of names. `settled` counts how often a sync covered changes of
    one task, and `idle` the syncs that found nothing to cover."""

    path: str  # its latest name
    device: int | None
    folder: bool = False
    names: set[str] = field(default_factory=set)
    elsewhere: bool = False  # it has names that the trace did not show
    aside: bool = False
    mapped: bool = False  # for writing
    writes: int = 0
    written: int = 0
    reads: int = 0
    read: int = 0
    changes: Counter[str] = field(default_factory=Counter)  # the number of changes by kind
    pending: set[str] = field(default_factory=set)  # the kinds of changes since a sync covered all
    calls: Counter[str] = field(default_factory=Counter)
    settled: int = 0
    idle: int = 0
    changed: int = -1  # when its last change ended; `synced`: when its last sync began
    synced: int = -1
    dirty: set["Past"] = field(default_factory=set)  # the tasks with unsynced changes of it


@dataclass(eq=False)
class Past:
    """The unsynced changes of a task: by file, the times at which they ended, in the order of the
    last."""

    dirty: dict[File, list[int]] = field(default_factory=dict)
    near: dict[File, int] = field(default_factory=dict)  # last changes since the last step
    stepped: bool = False  # whether a step came after its last change
    seen: int = 0  # the number of others' steps at its last change
    late: int = 0  # its changes since its last full sync, with others' steps in between
    steps: int = 0


@dataclass
class Opened:
    """The state that duplicated, inherited and passed descriptors share."""

    file: File
    synced: bool = False  # whether each write syncs
    writable: bool = True
    received: bool = False


@dataclass
class Task:
    """A thread or process and what it may share with others: its descriptors, each with whether
    exec closes it; its current folder; and its shared maps that may become writable."""

    files: dict[int, tuple[Opened, bool]]
    place: list[str]
    maps: list[tuple[int, int, File]]
    past: Past = field(default_factory=Past)


Aside = Callable[[str], bool]


class Traced:
    """The files, changes and syncs that follow from the calls of a program.

    A step is a sync that covers changes of a task. For each step, `steps` has the time of the
    task's last change that is still unsynced, and the time of the step. `near` has the same, but
    ignores changes that earlier steps had left unsynced; the files of those are in `left`. `late`
    is the largest number of times that a task made changes between the steps of others before it
    synced them.
    """

    def __init__(self, aside: Aside = lambda path: False) -> None:
        self.begun = time.time()
        self.calls: Counter[str] = Counter()
        self.changes = 0
        self.names = 0  # changes that added or removed a name
        self.copies = 0
        self.files: list[File] = []
        self.inherited: list[File] = []
        self.steps: list[tuple[int, int]] = []
        self.near: list[tuple[int, int]] = []
        self.left: set[File] = set()
        self._lefts = 0
        self._behind: list[tuple[int, int, int]] = []
        self.late = 0
        self.unseen: set[str] = set()
        self.connected = False
        self.most_tasks = 0
        self.ended: dict[int, str] = {}  # the signals that killed tasks
        self.first: int | None = None
        self._aside = aside
        self._names: dict[str, File] = {}
        self._inodes: dict[tuple[int, int], File] = {}
        self._tasks: dict[int, Task] = {}
        self._dirty: set[File] = set()

    def take(self, event: Call | End) -> None:
        """Process an event of the trace."""
        if isinstance(event, End):
            self._tasks.pop(event.task, None)
            self.ended[event.task] = event.signal
            return
        if self.first is None:
            self.first = event.task
            self._tasks[event.task] = Task(self._streams(), [os.path.realpath(os.getcwd())], [])
        task = self._tasks[event.task]
        name = event.name
        if name in WRITES or name in READS:
            self._transfer(task, event)
        elif name in OPENS:
            self._open(task, event)
        elif name in NAMES:
            self._name(task, event)
        elif name in FORKS:
            self._fork(task, event)
        elif name in UNSEEN:
            self.unseen.add(UNSEEN[name])
        elif name in ROOTS or (name == "unshare" and "CLONE_NEWNS" in event.text):
            self.unseen.add("a root or mount of its own")
        elif method := getattr(self, f"_{name.rstrip('0123456789')}", None):
            method(task, event)
        else:
            self._other(task, event)

    # Descriptors

    def _streams(self) -> dict[int, tuple[Opened, bool]]:
        """The files that the program inherits, which hold its output for people."""
        found = {}
        for number in range(3):
            try:
                about = os.fstat(number)
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode):
                path = os.readlink(f"/proc/self/fd/{number}")
                self.inherited.append(File(path, about.st_dev, aside=True))
                found[number] = Opened(self.inherited[-1]), False
        return found

    def _fork(self, task: Task, call: Call) -> None:
        text = call.text if call.name.startswith("clone") else ""
        if UNTRACED in text:
            self.unseen.add("a process that strace does not follow")
        self._tasks[call.result] = Task(
            task.files if "CLONE_FILES" in text else dict(task.files),
            task.place if "CLONE_FS" in text else list(task.place),
            task.maps if "CLONE_VM" in text else list(task.maps),
        )
        self.most_tasks = max(self.most_tasks, len(self._tasks))

    def _execve(self, task: Task, call: Call) -> None:
        task.files = {number: kept for number, kept in task.files.items() if not kept[1]}
        task.place, task.maps = list(task.place), []

    _execveat = _execve

    def _unshare(self, task: Task, call: Call) -> None:
        task.files, task.place = dict(task.files), list(task.place)

    def _opened(self, task: Task, argument: str, base: int = 10) -> Opened | None:
        """The open file that a descriptor among the arguments refers to; None if it is not a
        file."""
        number = argument.partition("<")[0]
        try:
            return task.files[int(number, base)][0]
        except (KeyError, ValueError):
            return None

    def _assign(self, task: Task, number: int, opened: Opened | None, closing: bool) -> None:
        if opened is None:
            task.files.pop(number, None)
        else:
            task.files[number] = opened, closing

    def _close(self, task: Task, call: Call) -> None:
        task.files.pop(int(call.text.partition("<")[0]), None)

    def _close_range(self, task: Task, call: Call) -> None:
        first, last, *flags = call.arguments
        if "CLOSE_RANGE_UNSHARE" in "".join(flags):
            task.files = dict(task.files)
        low, high = int(first.partition("<")[0], 0), int(last.partition("<")[0], 0)
        for number in [number for number in task.files if low <= number <= high]:
            if "CLOSE_RANGE_CLOEXEC" in "".join(flags):
                task.files[number] = task.files[number][0], True
            else:
                del task.files[number]

    def _dup(self, task: Task, call: Call) -> None:
        source = call.arguments[0]
        if call.name != "dup2" or int(source.partition("<")[0]) != call.result:
            opened = self._opened(task, source)
            self._assign(task, call.result, opened, "O_CLOEXEC" in call.arguments[-1])

    def _fcntl(self, task: Task, call: Call) -> None:
        source, command, *flags = call.arguments
        if command.startswith("F_DUPFD"):
            opened = self._opened(task, source)
            self._assign(task, call.result, opened, command == "F_DUPFD_CLOEXEC")
        elif command == "F_SETFD" and (opened := self._opened(task, source)):
            self._assign(task, int(source.partition("<")[0]), opened, "FD_CLOEXEC" in flags[0])

    def _ioctl(self, task: Task, call: Call) -> None:
        target, request, *_ = call.arguments
        if (opened := self._opened(task, target)) is None:
            return
        if request in ("FIOCLEX", "FIONCLEX"):
            self._assign(task, int(target.partition("<")[0]), opened, request == "FIOCLEX")
        elif "FICLONE" in request:
            self._copied(task, opened, 0, call.ended)

    def _recvmsg(self, task: Task, call: Call) -> None:
        for _, numbers in re.findall(r"(SCM_RIGHTS), cmsg_data=\[([^\]]*)\]", call.text):
            for number, path in re.findall(r"(\d+)<(/[^<>]*)>", numbers):
                self._receive(task, int(number), unescaped(path))

    _recvmmsg = _recvmsg

    def _pidfd_getfd(self, task: Task, call: Call) -> None:
        self._receive(task, call.result, call.path)

    def _receive(self, task: Task, number: int, path: str) -> None:
        file = self._look(path) if path.startswith("/") else None
        self._assign(task, number, Opened(file, received=True) if file else None, False)

    # Names

    def _path(self, task: Task, text: str, at: str = "") -> str:
        """The absolute path of a name among the arguments; symbolic links in its folder are
        resolved, the last one is not."""
        if at and not at.startswith("AT_FDCWD"):
            base = unescaped(at.partition("<")[2].rpartition(">")[0])
        else:
            base = unescaped(at[9:-1]) if at[8:9] == "<" else task.place[0]
        head, tail = os.path.split(os.path.join(base, unescaped(text)).rstrip("/"))
        if tail in ("", ".", ".."):
            return os.path.realpath(os.path.join(head, tail))
        return os.path.join(os.path.realpath(head), tail)

    def _made(self, path: str, device: int | None, folder: bool = False) -> File:
        file = File(path, device, folder)
        self.files.append(file)
        self._give(file, path)
        return file

    def _give(self, file: File, path: str) -> None:
        self._names[path] = file
        file.names.add(path)
        file.path = path
        file.aside |= self._aside(path)

    def _nameless(self, path: str) -> File:
        file = File(path, self._device(path))
        self.files.append(file)
        return file

    def _look(self, path: str) -> File | None:
        """The file at a path, from the names that were followed or else from the disk; None if
        there is none."""
        if path in self._names or not path.startswith("/") or NO_FILE.match(path):
            return self._names.get(path)
        try:
            about = os.stat(path)
        except OSError:  # it was removed meanwhile
            return self._made(path, self._device(path))
        if stat.S_IFMT(about.st_mode) not in KEPT:
            return None
        folder = stat.S_ISDIR(about.st_mode)
        inode = about.st_dev, about.st_ino
        if folder or about.st_nlink < 2:
            return self._made(path, about.st_dev, folder)
        if inode not in self._inodes:
            self._inodes[inode] = self._made(path, about.st_dev)
            self._inodes[inode].elsewhere = True
        elif path not in self._inodes[inode].names:
            self._give(self._inodes[inode], path)
        return self._inodes[inode]

    def _device(self, path: str) -> int | None:
        try:
            return os.stat(os.path.dirname(path)).st_dev
        except OSError:
            return None

    def _folder(self, path: str) -> File:
        name = os.path.dirname(path)
        return self._names.get(name) or self._made(name, self._device(path), True)

    def _come(self, task: Task, file: File, path: str, at: int) -> None:
        """Add a name to a file; another file that had the name loses it."""
        replaced = self._names.get(path)
        if replaced is not None and replaced is not file:
            self._lose(replaced, path)
        self._give(file, path)
        self._change(task, self._folder(path), at, NAME)
        if len(file.names) == 1 and file.changed > file.synced:  # a name keeps it again
            self._change(task, file, at, WRITE)

    def _go(self, task: Task, path: str, at: int) -> None:
        """Remove a name."""
        self._change(task, self._folder(path), at, NAME)
        if (file := self._names.get(path)) is not None:
            self._lose(file, path)

    def _lose(self, file: File, path: str) -> None:
        file.names.discard(path)
        if self._names.get(path) is file:
            del self._names[path]
        if file.names:
            file.path = min(file.names)
        elif not file.elsewhere:  # without a name, nothing of it needs a sync
            for past in file.dirty:
                past.dirty.pop(file, None)
                past.near.pop(file, None)
            file.dirty.clear()
            self._dirty.discard(file)

    def _move(self, task: Task, old: str, new: str, at: int) -> None:
        file = self._look(old) or self._made(old, self._device(old))
        if self._names.get(new) is file:  # both names belong to one file: rename does nothing
            return
        below = [name for name in self._names if name.startswith(f"{old}/")] if file.folder else []
        self._come(task, file, new, at)
        self._go(task, old, at)
        for name in below:
            inner = self._names.pop(name)
            inner.names.discard(name)
            self._give(inner, new + name.removeprefix(old))

    def _name(self, task: Task, call: Call) -> None:
        name, arguments, at = call.name, call.arguments, call.ended
        if name in ("unlink", "rmdir"):
            self._go(task, self._path(task, arguments[0]), at)
        elif name == "unlinkat":
            self._go(task, self._path(task, arguments[1], arguments[0]), at)
        elif name.startswith("rename"):
            ends = arguments if name == "rename" else (arguments[1], arguments[3])
            places = ("", "") if name == "rename" else (arguments[0], arguments[2])
            old, new = (self._path(task, *end) for end in zip(ends, places, strict=True))
            if "RENAME_EXCHANGE" in arguments[-1]:
                aside = f"{old}\0"  # no file has this name
                for pair in ((old, aside), (new, old), (aside, new)):
                    self._move(task, *pair, at)
            else:
                self._move(task, old, new, at)
        elif name in ("link", "linkat"):
            self._link(task, call)
        else:  # a symbolic link, folder or pipe: only its name matters
            far = {"symlink": 1, "symlinkat": 2, "mkdirat": 1, "mknodat": 1}.get(name, 0)
            at_text = arguments[far - 1] if name.endswith("at") else ""
            path = self._path(task, arguments[far], at_text)
            folder = self._folder(path)
            self._change(task, folder, at, NAME)
            if name.startswith("mkdir"):
                self._made(path, folder.device, True)

    def _link(self, task: Task, call: Call) -> None:
        arguments = call.arguments
        if call.name == "link":
            source, new = self._path(task, arguments[0]), self._path(task, arguments[1])
        else:
            source = self._path(task, arguments[1], arguments[0])
            new = self._path(task, arguments[3], arguments[2])
        number = PROC_FD.fullmatch(unescaped(arguments[call.name == "linkat"]))
        if "AT_EMPTY_PATH" in arguments[-1] and unescaped(arguments[1]) == "":
            opened = self._opened(task, arguments[0])
        else:
            opened = self._opened(task, number[1]) if number else None
        file = opened.file if opened else self._look(os.path.realpath(source))
        if file is not None:
            self._come(task, file, new, call.ended)

    def _chdir(self, task: Task, call: Call) -> None:
        task.place[0] = os.path.realpath(os.path.join(task.place[0], unescaped(call.text)))

    def _fchdir(self, task: Task, call: Call) -> None:
        task.place[0] = unescaped(call.text.partition("<")[2].rpartition(">")[0])

    def _open(self, task: Task, call: Call) -> None:
        arguments = call.arguments
        flags = {"open": 1, "creat": 0}.get(call.name, 2)
        text = "O_WRONLY|O_CREAT|O_TRUNC" if call.name == "creat" else ",".join(arguments[flags:])
        known, created = call.gone or call.path in self._names, False
        file = self._look(call.path) if not call.gone else self._nameless(call.path)
        if file is not None and "O_CREAT" in text and not known:
            born = None if "O_EXCL" in text else _born(call.path)
            created = born is None or born >= self.begun - COARSE
        if file is not None and created:
            self._come(task, file, call.path, call.ended)
        elif file is not None and "O_TRUNC" in text:
            self._change(task, file, call.ended, SIZE)
        synced, writable = EACH_WRITE.search(text), WRITABLE.search(text)
        opened = Opened(file, bool(synced), bool(writable)) if file else None
        self._assign(task, call.result, opened, "O_CLOEXEC" in text)

    # Changes

    def _transfer(self, task: Task, call: Call) -> None:
        arguments = call.arguments
        opened = self._opened(task, arguments[0], 16)
        if opened is None:
            return
        file = opened.file
        if call.name in READS:
            file.reads += 1
            file.read += call.result
            return
        flagged = call.name == "pwritev2" and int(arguments[-1], 16) & RWF_EACH
        self._written(task, opened, call.result, call.ended, bool(flagged))

    def _written(self, task: Task, opened: Opened, size: int, at: int, flagged: bool) -> None:
        file = opened.file
        file.writes += 1
        file.written += size
        if size == 0:
            return
        if opened.received:
            self.unseen.add("a descriptor that another process sent")
        if opened.synced or flagged:
            self._count(file, "O_DSYNC")
            self._change_synced(task, file, at)
        else:
            self._change(task, file, at, WRITE)

    def _copied(self, task: Task, opened: Opened, size: int, at: int) -> None:
        self.copies += not opened.file.aside
        self._written(task, Opened(opened.file, received=opened.received), size or 1, at, False)
        opened.file.written -= not size

    def _other(self, task: Task, call: Call) -> None:
        name, arguments = call.name, call.arguments
        if name in COPIES:
            opened = self._opened(task, arguments[COPIES[name]])
            if opened is not None and call.result:
                self._copied(task, opened, call.result, call.ended)
        elif name in SIZES and arguments[1] != "FALLOC_FL_KEEP_SIZE":  # only reserves space
            opened = self._opened(task, arguments[0])
            if opened is not None:
                self._change(task, opened.file, call.ended, SIZE)

    def _truncate(self, task: Task, call: Call) -> None:
        file = self._look(os.path.realpath(self._path(task, call.arguments[0])))
        if file is not None:
            self._change(task, file, call.ended, SIZE)

    def _connect(self, task: Task, call: Call) -> None:
        self.connected = True

    def _mmap(self, task: Task, call: Call) -> None:
        _, size, access, flags, number, _ = call.arguments
        opened = self._opened(task, number) if "MAP_SHARED" in flags else None
        if opened is None or not opened.writable:
            return
        if "PROT_WRITE" in access:
            self._map(opened.file)
        else:
            task.maps.append((call.result, call.result + int(size), opened.file))

    def _mprotect(self, task: Task, call: Call) -> None:
        address, size, access = call.arguments[:3]
        if "PROT_WRITE" in access and task.maps:
            first = int(address, 16)
            for start, stop, file in task.maps:
                if start < first + int(size) and first < stop:
                    self._map(file)

    _pkey_mprotect = _mprotect

    def _map(self, file: File) -> None:
        file.mapped |= bool(file.names)

    def _boundary(self, past: Past) -> None:
        """Note that a task makes changes again after a step: its changes before the step that are
        still unsynced are left behind."""
        if past.stepped:
            self._lefts += bool(past.near)
            self.left.update(past.near.keys())
            past.near.clear()
            past.stepped = False
        others = len(self.steps) - past.steps
        if past.dirty and others != past.seen:
            past.late += 1
            self.late = max(self.late, past.late)
        past.seen = others

    def _note(self, file: File, kind: str) -> bool:
        """Count a change. Returns whether the file has a name that keeps it."""
        kept = bool(file.names or file.elsewhere) and not file.aside
        file.changes[kind] += 1
        self.changes += kept
        self.names += kept and kind == NAME
        return kept

    def _change(self, task: Task, file: File, at: int, kind: str) -> None:
        file.changed = max(file.changed, at)
        file.pending.add(kind)
        if self._note(file, kind):
            past = task.past
            self._boundary(past)
            times = past.dirty.pop(file, [])
            times.append(at)
            past.dirty[file] = times
            past.near.pop(file, None)
            past.near[file] = at
            file.dirty.add(past)
            self._dirty.add(file)

    def _change_synced(self, task: Task, file: File, at: int) -> None:
        if self._note(file, WRITE):
            self._boundary(task.past)
            file.settled += 1
            self._step(task.past, at)

    # Syncs

    def _count(self, file: File | None, name: str) -> None:
        self.calls[name] += 1
        if file is not None:
            file.calls[name] += 1

    def _step(self, past: Past, at: int) -> None:
        past.stepped = True
        past.steps += 1
        if not past.dirty:
            past.late = 0
        self.steps.append((next(reversed(past.dirty.values()), [-1])[-1], at))
        self.near.append((next(reversed(past.near.values()), -1), at))

    def _settle(self, files: Iterable[File], call: Call) -> bool:
        """Apply a sync to files. Returns whether it covered any change."""
        stepping: set[Past] = set()
        for file in list(files):
            file.synced = max(file.synced, call.begun)
            for past in list(file.dirty):
                times = past.dirty[file]
                done = bisect_left(times, call.begun)  # later changes had not ended
                if not done:
                    continue
                file.settled += 1
                stepping.add(past)
                if file not in past.near:
                    self._behind.append((times[done - 1], call.ended, done))
                del times[:done]
                if not times:
                    del past.dirty[file]
                    past.near.pop(file, None)
                    file.dirty.discard(past)
            if not file.dirty:
                self._dirty.discard(file)
                file.pending.clear()
        for past in stepping:
            self._step(past, call.ended)
        return bool(stepping)

    def _fsync(self, task: Task, call: Call) -> None:
        opened = self._opened(task, call.text)
        self._count(opened.file if opened else None, call.name)
        if opened is not None and not self._settle([opened.file], call):
            opened.file.idle += 1

    _fdatasync = _fsync

    def _sync(self, task: Task, call: Call) -> None:
        self._count(None, "sync")
        self._settle(self._dirty, call)

    def _syncfs(self, task: Task, call: Call) -> None:
        self._count(None, "syncfs")
        opened = self._opened(task, call.text)
        if opened is not None and opened.file.device is not None:
            same = [file for file in self._dirty if file.device == opened.file.device]
            self._settle(same, call)

    def _sync_file_range(self, task: Task, call: Call) -> None:
        opened = self._opened(task, call.arguments[0])
        self._count(opened.file if opened else None, "sync_file_range")

    def _msync(self, task: Task, call: Call) -> None:
        if "MS_SYNC" in call.text:
            self._count(None, "msync")

    # What is left

    @property
    def lefts(self) -> int:
        """The number of steps that left changes of their task unsynced, while the task made further
        changes or the program ended."""
        pasts = {past for file in self._dirty for past in file.dirty}
        return self._lefts + sum(past.stepped and bool(past.near) for past in pasts)

    def unsynced(self) -> Counter[File]:
        """The files with changes that were never synced, and the number of these changes."""
        left: Counter[File] = Counter()
        for file in self.files:
            left[file] += sum(len(past.dirty[file]) for past in file.dirty)
        return +left

    def waiting(self, since: int) -> int:
        """The number of changes that were unsynced at a moment, after a step of their task had left
        them behind, and that were synced later."""
        return sum(count for made, at, count in self._behind if made <= since < at)


def most_at_once(spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The largest number of spans (begin, end) that overlap, and the last moment at which that many
    begin to overlap."""
    spans = list(spans)
    moves = sorted(itertools.chain(((a, 1) for a, _ in spans), ((b, -1) for _, b in spans)))
    most, when, now = 0, -1, 0
    for at, step in moves:
        now += step
        if now >= most:
            most, when = now, at
    return most, when
