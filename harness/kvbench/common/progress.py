"""Shows the progress of a long command: a bar on a terminal, one plain line per minute
elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tqdm import tqdm

from kvbench.common.messages import say

BAR = "{desc} |{bar}| {percentage:3.0f}% [{elapsed}, left {remaining}]{postfix}"
INTERVAL = 60.0  # seconds between two plain lines
Item = TypeVar("Item")


def progress(
    items: Sequence[Item], costs: Sequence[float], name: Callable[[Item], str]
) -> Iterator[Item]:
    """Yield the items one by one, and report how many are done and the time left. `costs` are the
    relative durations of the items, in any unit; `name` describes the current item."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    began = reported = time.monotonic()
    total, done = sum(costs), 0.0
    with tqdm(total=total, bar_format=BAR, disable=not (terminal and items)) as bar:
        for number, (item, cost) in enumerate(zip(items, costs, strict=True), start=1):
            bar.set_postfix_str(name(item))
            yield item
            done += cost
            bar.set_description_str(f"{number}/{len(items)}")
            bar.update(min(cost, total - bar.n))
            now = time.monotonic()
            if not terminal and now - reported >= INTERVAL:
                reported, left = now, (now - began) * (total / done - 1) if done else 0.0
                say(f"{number}/{len(items)} done, about {tqdm.format_interval(left)} left")
