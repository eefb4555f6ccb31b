import os

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# The same examples every time: a run that failed fails again.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")
