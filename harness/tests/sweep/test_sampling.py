"""The memory of a worker, which the sweep watches."""

import os
import subprocess

import pytest
from kvbench.cell.board import Board
from kvbench.sweep.sampling import Memory


@pytest.mark.filterwarnings("error")
def test_a_worker_that_ended_before_its_memory_is_watched_has_no_peaks() -> None:
    with subprocess.Popen(["true"]) as worker:
        worker.wait()
    with os.fdopen(os.memfd_create("board"), "w+b") as board:
        memory = Memory(Board(board.fileno()))
        memory.follow(worker.pid)
        assert memory.columns() == {}
