"""Berkeley DB by berkeleydb."""

from berkeleydb import db

from kvbench.cell.bindings.berkeley import Berkeley


class Open(Berkeley):
    api = db
