"""Tests whether a second process may use a store that another process has open.

One process opens a store, inserts records and keeps it open. A second one then opens the same
folder, reads a record, reads one that the first inserts meanwhile, and inserts one itself. Finally
the first process, and a third one that opens the store after both, look for all records.
"""

import os
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from kvbench.cell.contract import StoreError
from kvbench.cell.store import Store
from kvbench.common.messages import one_line
from kvbench.common.processes import dying, how_it_ended
from kvbench.durability.evidence import command_of
from kvbench.stores import catalogue
from kvbench.stores.opened import open_store

LIMIT = 10  # seconds per step: an engine may wait for the other process
RECORDS = 100  # records that the first process inserts at the start
MEANWHILE, SECOND = RECORDS, RECORDS + 1  # records that the two processes insert later
YES, NO, WAITS = "yes", "no", "waits"


def record(number: int) -> tuple[bytes, bytes]:
    return number.to_bytes(8, "big"), b"%064d" % number


class Process:
    """A process that has the store open, and executes one step for each line it receives."""

    def __init__(self, store: Store, folder: Path) -> None:
        pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = command_of("kvbench.durability.sharing", store, folder)
        self.process = subprocess.Popen(
            command, text=True, stderr=subprocess.DEVNULL, **pipe, **dying()
        )
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.answers.put(line.rstrip("\n"))
        self.answers.put(how_it_ended(self.process.wait()))

    def answer(self) -> str:
        """YES, NO or the engine's error; WAITS if no answer comes in time."""
        try:
            return self.answers.get(timeout=LIMIT)
        except queue.Empty:
            return WAITS

    def do(self, step: str, number: int = 0) -> str:
        assert self.process.stdin
        try:
            print(step, number, file=self.process.stdin, flush=True)
        except OSError:  # it has ended
            return self.answer()
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def share(store: Store, place: Path) -> dict[str, str]:
    """A row of the table: what a second process may do with an open store, as shipped."""
    row = dict.fromkeys(("opens", "reads", "sees_new", "writes", "intact"), "")
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name) / "store"
        folder.mkdir()
        first = Process(store, folder)
        others: list[Process] = []
        try:
            if (said := first.answer()) != YES or (said := first.do("fill")) != YES:
                raise StoreError(f"{store.full_name}: {said}")
            others.append(second := Process(store, folder))
            row["opens"] = second.answer()
            if row["opens"] == YES:
                row["reads"] = second.do("get", 1)
                first.do("insert", MEANWHILE)
                row["sees_new"] = second.do("get", MEANWHILE)
                row["writes"] = second.do("insert", SECOND)
                second.do("close")
            else:
                second.end()  # a waiting process would get the store next
            written = row["writes"] == YES
            seen = [first.do("check")] + [first.do("get", SECOND)] * written
            first.do("close")
            others.append(third := Process(store, folder))
            seen += [third.answer(), third.do("check")] + [third.do("get", SECOND)] * written
            lost = [text for text in seen if text != YES]
            row["intact"] = lost[0] if lost else YES
        finally:
            for process in (first, *others):
                process.end()
    where = str(folder.parent)  # engines name it in their errors
    return {"store": store.full_name} | {key: said.replace(where, ".") for key, said in row.items()}


def _step(opened: Any, step: str, number: int) -> bool:
    key, value = record(number)
    if step == "get":
        return bool(opened.get(key) == value)
    if step == "insert":
        return bool(opened.insert(key, value))
    if step == "fill":
        return all(opened.insert(key, value) for key, value in map(record, range(RECORDS)))
    if step == "check":
        return all(opened.get(key) == value for key, value in map(record, range(RECORDS)))
    opened.close()
    return True


def main() -> None:
    folder, name = sys.argv[1:]
    try:
        opened = open_store(catalogue.known()[name], Path(folder))
    except StoreError as error:
        print(f"refused: {one_line(str(error))}", flush=True)
        os._exit(1)
    print(YES, flush=True)
    for line in sys.stdin:
        step, number = line.split()
        try:
            said = YES if _step(opened, step, int(number)) else NO
        except StoreError as error:
            said = one_line(str(error))
        print(said, flush=True)
    os._exit(0)  # engines may leave threads behind


if __name__ == "__main__":
    main()
