"""Readers and writers in processes of their own, each of which has the store open."""

import dataclasses
import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from kvbench.cell.contract import StoreError
from kvbench.cell.loop import ShimLoop, Traffic, shares
from kvbench.cell.phase import Phase
from kvbench.common.processes import die_with_parent

_FORK = multiprocessing.get_context("fork")
_shared: tuple[ShimLoop, Callable[[], None], Any]  # what the forked processes inherit


def _run(traffic: Traffic) -> dict[str, Phase]:
    """Open the store, wait until all have, and run one reader or writer."""
    loop, open_store, all_open = _shared
    loop.meter = None  # it counts the parent
    try:
        open_store()
        all_open.wait()
    except BaseException:
        all_open.abort()
        raise
    found = loop.traffic(traffic)
    loop.close()
    return found


def _each(traffic: Traffic) -> list[Traffic]:
    """The traffic of each process."""
    readers, writers = traffic.readers, traffic.writers
    return [
        dataclasses.replace(traffic, readers=1, writers=0, seed=traffic.seed + i)
        for i in range(readers)
    ] + [
        dataclasses.replace(
            traffic, readers=0, writers=1, writes=traffic.writes // writers,
            first=i, among=writers, seed=traffic.seed + readers + i,
        )
        for i in range(writers)
    ]  # fmt: skip


def run_processes(
    loop: ShimLoop, open_store: Callable[[], None], traffic: Traffic
) -> Mapping[str, Phase]:
    """Run readers and writers as ShimLoop.traffic does, each in a process of its own, which opens
    the store. The caller has closed it. The phases have no timeline, and count no resources. Raises
    StoreError."""
    global _shared  # noqa: PLW0603 - neither the loop nor the barrier can be sent
    each = _each(traffic)
    _shared = loop, open_store, _FORK.Barrier(len(each))
    with ProcessPoolExecutor(len(each), _FORK, die_with_parent, (os.getpid(),)) as pool:
        futures = [pool.submit(_run, one) for one in each]
    return _together(list(map(_answer, sorted(futures, key=_is_consequence))))


def _together(found: list[dict[str, Phase]]) -> dict[str, Phase]:
    whole = {"": Phase()}
    for name in ("read", "write"):
        own = [phases[name] for phases in found if name in phases]
        if own:
            side = whole[name] = Phase()
            for one in own:
                side.add(one)
            side.more = shares([one.items for one in own])
    for phase in whole.values():
        phase.wall_s = max(phases[""].wall_s or 0 for phases in found)
        phase.paused_s = None
    whole[""].items = sum(phases[""].items for phases in found)
    return whole


def _is_consequence(future: "Future[Any]") -> bool:
    """Whether a process failed only because another one did."""
    return isinstance(future.exception(), threading.BrokenBarrierError)


def _answer(future: "Future[dict[str, Phase]]") -> dict[str, Phase]:
    try:
        return future.result()
    except BrokenProcessPool:
        raise StoreError("a process that had the store open was killed, or crashed") from None
