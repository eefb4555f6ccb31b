import os
import pathlib
import subprocess
import sys
import threading

import pytest

from doap_tf.errors import InputError
from doap_tf.parallel import cores, map_ahead, one_core, parallel_map, process_map


def environment():
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])}


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order(processes):
    offset = 100  # a closure has to reach the processes
    assert list(process_map(lambda x: x + offset, range(9), processes)) == list(range(100, 109))


def test_processes_share_the_work():
    assert len(set(process_map(lambda _: os.getpid(), [0], 2))) == 1
    assert os.getpid() not in set(process_map(lambda _: os.getpid(), range(4), 2))


def test_no_more_than_two_items_a_process_are_taken_ahead():
    class Counting(list):
        taken = 0

        def __iter__(self):
            for item in super().__iter__():
                self.taken += 1
                yield item

    items = Counting(range(50))
    results = process_map(lambda x: x, items, 2)
    assert next(results) == 0
    assert items.taken <= 5
    results.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_errors_keep_their_type(processes):
    def fail(item):
        raise InputError(f"item {item}")

    with pytest.raises(InputError, match="item 3"):
        list(process_map(fail, [3, 4], processes))


def test_nothing_gives_nothing():
    assert list(process_map(abs, [], 2)) == []


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_threads_keep_the_order(threads):
    expected = [item**2 for item in range(20)]
    assert parallel_map(lambda item: item**2, iter(range(20)), threads) == expected
    assert list(map_ahead(lambda item: item**2, iter(range(20)), threads)) == expected


def test_one_thread_is_this_one():
    assert parallel_map(lambda _: threading.get_ident(), [0], 1) == [threading.get_ident()]


def test_after_an_error_threads_begin_nothing_new():
    begun, stopped = [], threading.Event()

    def fail_first(item):
        begun.append(item)
        if item == 0:
            raise InputError("item 0")
        stopped.wait(0.2)  # long enough for the error to arrive

    with pytest.raises(InputError, match="item 0"):
        list(map_ahead(fail_first, range(9), 1))
    assert len(begun) <= 2


def test_processes_end_with_a_killed_parent():
    script = (
        "import os\n"
        "from doap_tf.parallel import process_map\n"
        "results = process_map(lambda _: os.getpid(), range(9), 2)\n"
        "next(results)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    # They hold the pipe of the output, so this waits for their end as well.
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=environment(), timeout=60
    )
    assert done.returncode == -9


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from doap_tf.parallel import process_map\n"
        "print('once')\n"
        "print(sum(process_map(lambda x: x + 1, range(4), 2)))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == "once\n10\n"


def test_threads_share_the_cores():
    assert set(parallel_map(lambda _: cores(), range(4), threads=cores() + 1)) == {1}
    assert list(map_ahead(lambda _: cores(), [0], threads=1)) == [cores()]


def test_a_thread_can_be_left_one_core():
    before = cores()
    with pytest.raises(ZeroDivisionError), one_core():
        assert cores() == 1
        raise ZeroDivisionError
    assert cores() == before
