"""Begins to record in a Python process whose PYTHONPATH begins with this folder, then goes on with
the environment's own sitecustomize, if there is one."""

import importlib.machinery
import importlib.util
import os
import sys

import kvbench_recorder  # type: ignore[import-not-found] # beside this file, where it runs

kvbench_recorder.begin()

here = os.path.dirname(os.path.abspath(__file__))
others = [path for path in sys.path if os.path.abspath(path or ".") != here]
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
if spec is not None and spec.loader is not None:
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
