"""The report has the time to the first job that was submitted after a fault and ended after it."""

from tests.cluster_storm.outages import JobTimes, Outage, measure_first_job, measure_pause, tabulate

OUTAGE = Outage("kill primary", 100.0, 120.0)
EARLIER = JobTimes(99.9, 101.0)  # submitted before the fault
SLOW, FAST = JobTimes(100.5, 113.0), JobTimes(104.0, 109.0)


def test_first_job_is_one_that_was_submitted_after_the_fault() -> None:
    assert measure_first_job(OUTAGE, [EARLIER, SLOW, FAST]) == 9.0


def test_there_may_be_no_job_after_a_fault() -> None:
    assert measure_first_job(OUTAGE, [EARLIER]) is None
    assert "never" in "".join(tabulate([OUTAGE], [EARLIER]))


def test_pause_is_the_longest_time_without_an_end() -> None:
    assert measure_pause(OUTAGE, [EARLIER, SLOW, FAST]) == 8.0  # from 101 to 109
    assert measure_pause(OUTAGE, []) == 20.0
    assert measure_pause(OUTAGE, [JobTimes(0.0, 130.0)]) == 20.0  # after the fault


def test_table_has_a_row_for_each_kind_of_fault() -> None:
    other = Outage("switchover primary", 200.0, 203.0)
    second = Outage("kill primary", 300.0, 304.0)
    jobs = [FAST, JobTimes(201.0, 202.0), JobTimes(300.0, 301.0)]
    rows = [line.split() for line in tabulate([OUTAGE, other, second], jobs)][2:]
    assert rows == [
        ["kill", "primary", "2", "5.0", "9.0", "7.0", "11.0", "12.0", "20.0"],
        ["switchover", "primary", "1", "2.0", "2.0", "2.0", "2.0", "3.0", "3.0"],
    ]
