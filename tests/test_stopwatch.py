import contextlib

from doap_tf import stopwatch
from doap_tf.parallel import parallel_map


def test_stages_add_up_over_threads_and_failures(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: float(next(ticks)))
    watch = stopwatch.Stopwatch()
    with watch.measure("outer"), watch.measure("inner"):
        pass
    with contextlib.suppress(ValueError), watch.measure("inner"):
        raise ValueError

    def work(_):
        with watch.measure("threads"):
            pass

    parallel_map(work, range(3), threads=2)
    seconds = watch.seconds()
    assert seconds.pop("threads") >= 3
    assert seconds == {"inner": 2, "outer": 3}
