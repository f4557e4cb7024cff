# SPDX-License-Identifier: MIT
"""Each round as guarded.py judges it."""
from guarded import judge  # noqa: F401
