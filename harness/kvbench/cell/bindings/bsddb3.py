"""Berkeley DB by bsddb3, which its author has retired in favour of berkeleydb."""

from bsddb3 import db

from kvbench.cell.bindings.berkeley import Berkeley


class Open(Berkeley):
    api = db
