import os

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The workers of `make test` share the cores already.
for library in ("TF_NUM_INTRAOP", "OMP_NUM", "OPENBLAS_NUM"):
    os.environ.setdefault(f"{library}_THREADS", "1")

# The same examples every time: a run that failed fails again. Nothing fails because it is slow.
hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("repeatable")
