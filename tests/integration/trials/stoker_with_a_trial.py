"""A Stoker that runs one trial: to be killed by a test."""

import os
import sys
from pathlib import Path

from stoker.trials.guard.mode import GuardMode
from stoker.trials.trial import TrialSpec, run_trial

script, folder, cwd = sys.argv[1:4]
command = (sys.executable, script, "--setsid")
spec = TrialSpec(command, dict(os.environ), Path(folder), 300.0, guard=GuardMode(sys.argv[4]), cwd=Path(cwd))
run_trial(spec)
