"""What Linux shows of processes."""

from benchmarks.harness.processes import count_switches


def test_voluntary_and_involuntary_switches_count() -> None:
    status = "Name:\tpython\nThreads:\t1\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
    assert count_switches(status) == 15
