"""The fixtures of all tests are in harness/tests/support.py."""

pytest_plugins = ["support"]
