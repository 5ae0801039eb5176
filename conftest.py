"""The fixtures of all tests are in harness/tests/support.py."""

import signal

pytest_plugins = ["support"]

# Under nohup, programs that tests start would ignore the signal that some of these tests send.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
