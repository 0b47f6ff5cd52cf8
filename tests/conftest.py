"""Settings that all tests share."""

from __future__ import annotations

import os

# Two pytest workers on two cores: more threads each would only make them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Pictures are drawn to files; a test must not need a display.
os.environ.setdefault("MPLBACKEND", "agg")
