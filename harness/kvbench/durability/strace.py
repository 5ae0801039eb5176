"""Runs programs under strace, and yields each system call of a program and its descendants as it
happens.

strace writes into a pipe that is read while the program runs, so a trace needs no disk space and a
full disk cannot cut it short.
"""

import codecs
import ctypes
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, NamedTuple, Self

import psutil

from kvbench.common.messages import BadInput
from kvbench.machine.shelf import PATIENCE, await_end, runs

# strace does not report deaths by signals that it filters out: these signals never kill.
TRACER = (
    "strace", "--follow-forks", "--seccomp-bpf", "--quiet=attach,personality,path-resolution",
    "--signal=!chld,urg,winch,cont", "--string-limit=4096", "--decode-fds=path",
    "--decode-pids=pidns",
)  # fmt: skip
READS = ("read", "pread64", "readv", "preadv", "preadv2")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
RAW = f"--raw={','.join(READS + WRITES)}"  # otherwise strace prints their data
UNTRACED = "CLONE_UNTRACED"
FORKS = ("clone", "clone3", "fork", "vfork")
# A call, its result with its path, and the error or strace's number for a new task.
CALL = re.compile(
    r"(\w+)\((.*)\) += (-?\d\w*)(?:<([^<>]*)>(\(deleted\))?)?"
    r"(?: /\* (\d+) in [^<>]*\*/| (E\w+) \([^<>]*\)| \([^<>]*\))?"
)
UNFINISHED, CHANGED = "<unfinished ...>", re.compile(r"<pid changed to (\d+) \.\.\.>$")
ARGUMENT = re.compile(r'(?:"(?:[^"\\]|\\.)*"(?:\.\.\.)?|<[^<>]*>|[^",<]|<)+')
_library = ctypes.CDLL(None, use_errno=True)


def unescaped(text: str) -> str:
    """A path as Python writes it, from strace's notation with escapes and optional quotes."""
    found = re.fullmatch(r'"(.*)"(?:\.\.\.)?', text, re.DOTALL)
    raw = (found[1] if found else text).encode("ascii", "surrogateescape")
    return os.fsdecode(codecs.escape_decode(raw)[0])


class Call(NamedTuple):
    """A system call that succeeded. `begun` and `ended` are the numbers of the lines at which
    strace saw it begin and end. A call with `ended` less than another's `begun` was complete before
    that one began."""

    task: int
    name: str
    text: str  # the arguments, as strace prints them
    result: int
    path: str  # the path of the descriptor that it returns
    gone: bool  # whether that path no longer exists
    begun: int
    ended: int

    @property
    def arguments(self) -> list[str]:
        return [argument.strip() for argument in ARGUMENT.findall(self.text)]


class End(NamedTuple):
    """A task (thread or process) that ended, and the signal that killed it, or an empty text."""

    task: int
    signal: str


def read(lines: Iterable[str], tasks: dict[int, int]) -> Iterator[Call | End]:
    """Yield the calls and ends in the output of strace. `tasks` maps each running task to its
    process, and is kept up to date. Events of a new task are held back until the call that created
    it has returned."""
    begun: dict[int, tuple[int, str]] = {}  # the unfinished call of each task
    early: dict[int, list[tuple[int, str]]] = defaultdict(list)  # of unknown tasks
    first = True
    for number, line in enumerate(lines):
        head, _, text = line.rstrip("\n").partition(" ")
        if not head.isdigit():
            continue
        if first:
            tasks[int(head)], first = int(head), False
        due = [(int(head), number, text.lstrip())]
        while due:
            task, at, text = due.pop(0)
            if task not in tasks:
                early[task].append((at, text))
            elif event := _event(task, at, text, tasks, begun):
                yield event
                if isinstance(event, Call) and event.name in FORKS and UNTRACED not in event.text:
                    child, thread = event.result, "CLONE_THREAD" in event.text
                    tasks[child] = tasks[task] if thread else child
                    due = [(child, *line) for line in early.pop(child, ())] + due
    tasks |= {task: task for task in early}  # their parents died in those calls


def _event(
    task: int, at: int, text: str, tasks: dict[int, int], begun: dict[int, tuple[int, str]]
) -> Call | End | None:
    """The event in a line about a task, if the line completes a call that succeeded or ends the
    task."""
    if text.startswith("+++ "):
        if "superseded" in text:  # another thread called exec and takes over the number
            return None
        killed = re.match(r"\+\+\+ killed by (\w+)", text)
        tasks.pop(task), begun.pop(task, None)
        return End(task, killed[1] if killed else "")
    if changed := CHANGED.search(text):  # such a thread, which runs another program
        begun[int(changed[1])] = at, text[: changed.start()]
        tasks.pop(task)
        return End(task, "")
    if text.endswith(UNFINISHED):
        begun[task] = at, text.removesuffix(UNFINISHED)
        return None
    since = at
    if text.startswith("<... "):
        since, head = begun.pop(task, (at, ""))
        text = head + text.partition(" resumed>")[2]
    call = CALL.fullmatch(text)
    if call is None or (call[3].startswith("-") and call[7] != "EINPROGRESS"):
        return None  # failed, or unfinished when its process ended
    result, path = int(call[6] or call[3], 0), unescaped(call[4] or "")
    return Call(task, call[1], call[2], result, path, bool(call[5]), since, at)


def tracing_fails() -> str:
    """The reason why programs cannot be traced here; empty if they can."""
    if shutil.which(TRACER[0]) is None:
        return "strace is not installed (Debian: strace)"
    tried = subprocess.run(
        [*TRACER, RAW, "--output=/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return tried.stderr.strip() if tried.returncode else ""


def _be_traced() -> None:
    _library.ptrace(0, 0, None, None)  # PTRACE_TRACEME


def refuse_unless_runs(command: Sequence[str]) -> None:
    """Raise BadInput if a command cannot be started. The command is started, and killed before its
    first instruction, at which the system stops a traced program."""
    try:
        tried = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=_be_traced,  # noqa: PLW1509 - no thread runs yet
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        allowed = "a program that can be run, and its arguments"
        raise BadInput(f"{command[0]!r} cannot be run: {why}; allowed: {allowed}") from None
    os.kill(tried.pid, signal.SIGKILL)  # Popen.kill() would take the stop for the end
    while not os.WIFSIGNALED(os.waitpid(tried.pid, 0)[1]):
        pass
    tried.returncode = -signal.SIGKILL


class Trace:
    """A program that runs under strace. Iterate over its events once, within `with`. Afterwards
    `status` and `seconds` are set, and `cut` says whether strace ended before the program, unless
    we killed that."""

    status: int
    seconds: float

    def __init__(
        self,
        command: Sequence[str],
        calls: Iterable[str],
        stdout: int | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self.tasks: dict[int, int] = {}  # the process ID of each running task
        self.asked: int | None = None  # the signal that was sent to the program
        source, sink = os.pipe()
        # strace opens the pipe by its path: the program would inherit a descriptor, too.
        output = f"--output=/proc/{os.getpid()}/fd/{sink}"
        self.begun = time.monotonic()
        self._lines = open(source, encoding="ascii", errors="surrogateescape", newline="\n")  # noqa: SIM115
        try:
            self._strace = subprocess.Popen(
                [*TRACER, RAW, f"--trace={','.join(calls)}", output, "--", *command],
                stdout=stdout, stderr=stderr,
            )  # fmt: skip
        except BaseException:
            os.close(sink)
            self._lines.close()
            raise
        self._waiter = threading.Thread(target=self._wait, args=(sink,), daemon=True)
        self._waiter.start()

    def _wait(self, sink: int) -> None:
        self._strace.wait()
        os.close(sink)  # closes the pipe if strace has not opened it

    def __enter__(self) -> Self:
        return self

    def __iter__(self) -> Iterator[Call | End]:
        known: set[int] = set()
        for event in read(self._lines, self.tasks):
            if self.asked and self.tasks.keys() - known:  # tasks created since the signal
                self.stop(self.asked)
            known |= self.tasks.keys()
            yield event
        self._waiter.join()
        self.seconds = time.monotonic() - self.begun
        self.status = self._strace.returncode

    @property
    def cut(self) -> bool:
        # A task that we killed may end without a line of strace's, as while it begins another one.
        return bool(self.tasks) and self.asked != signal.SIGKILL

    def stop(self, number: int) -> None:
        """Send a signal to all running tasks, and to those that appear later."""
        self.asked = number
        for process in set(self.tasks.values()):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _end(self) -> None:
        """Kill strace and all that it has started, and wait until they have ended. A program that
        strace does not trace yet waits for it, stopped."""
        killed: set[psutil.Process] = set()
        for process in set(self.tasks.values()):  # killed already, and no child if strace has ended
            with suppress(psutil.NoSuchProcess):
                killed.add(psutil.Process(process))
        with suppress(psutil.NoSuchProcess):
            strace = psutil.Process(self._strace.pid)
            strace.suspend()
            while runs(strace) and strace.status() != psutil.STATUS_STOPPED:
                time.sleep(0.001)
            # Without strace to let them go on, traced programs wait where they fork and where they
            # end, so a program that was started after one look is found by the next.
            while new := set(strace.children(recursive=True)) - killed:
                for process in new:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                killed |= new
        self._strace.kill()
        await_end(killed, time.monotonic() + PATIENCE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None or self.tasks:
            self.stop(signal.SIGKILL)
            self._end()
        self._waiter.join()
        self._lines.close()
