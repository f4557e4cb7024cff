#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""status against GPU drivers that are missing, hang or answer, through the real probe and the fake NVML library."""

import os
import tempfile

from harness import FAKE_NVML, Skip, assert_clean_text, case, check_status, contains, environment, equal, main, run

# The spec for a one-shot answer: the probe's deadline of 2 s, and half a second for everything else.
BOUND_SECONDS = 2.5


def fake(scenario):
    if not FAKE_NVML or not os.path.exists(FAKE_NVML):
        raise Skip("the fake NVML library is not built")
    return environment(UMACTL_NVML=FAKE_NVML, UMA_FAKE_NVML_SCENARIO=scenario)


main()
