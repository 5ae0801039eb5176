"""Berkeley DB by berkeleydb."""

from berkeleydb import db

from kvbench.cell.bindings.berkeley import Berkeley


class Open(Berkeley):
    api = db

    @staticmethod
    def engine_version() -> str:
        return ".".join(map(str, db.version()))
