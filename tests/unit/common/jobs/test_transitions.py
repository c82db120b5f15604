"""Transitions of a job, as the verbs declare them."""

import re

from common.job_states import TERMINAL, Status
from common.jobs.transitions import TRANSITIONS, VERBS
from common.postgres import sql
from deploy.local.settings import ROOT

ADD = ("submit_jobs", "submit_reusing", "add_reused", "add_runs", "add_steps")
WRITES = re.compile(r"\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(ONLY\s+)?(\w+\.)?(live_)?(jobs|runs)\b")


def test_every_state_can_be_reached_from_queued() -> None:
    reached, edge = {Status.QUEUED}, {Status.QUEUED}
    while edge:
        edge = {after for before in edge for after in TRANSITIONS[before]} - reached
        reached |= edge
    assert reached == set(Status)


def test_every_state_leads_to_an_end() -> None:
    ending = set(TERMINAL)
    while more := {status for status in Status if TRANSITIONS[status] & ending} - ending:
        ending |= more
    assert ending == set(Status)


def test_success_is_final_and_other_ends_can_only_be_queued_again() -> None:
    assert TRANSITIONS[Status.SUCCEEDED] == frozenset()
    for status in TERMINAL - {Status.SUCCEEDED}:
        assert TRANSITIONS[status] == {Status.QUEUED}


def test_a_canceling_job_never_goes_back_to_the_queue() -> None:
    assert TRANSITIONS[Status.CANCELING] <= TERMINAL


def test_each_statement_declares_its_moves_once() -> None:
    statements = [each.statement for moves in VERBS.values() for each in moves]
    assert len(statements) == len(set(statements))


def test_only_declared_statements_write_jobs() -> None:
    """Besides them, `submit` and `run` add jobs, and `remove` removes them."""
    files = [file for folder in ("common", "services") for file in (ROOT / folder).rglob("*.sql")]
    found: dict[str, str] = {}
    for file in files:
        if file.parent.name != "migrations":
            package = ".".join(file.parent.relative_to(ROOT).parts)
            found |= {name: package for name, text in sql.load(package, file.name).items() if WRITES.search(text)}
    declared = {each.statement for moves in VERBS.values() for each in moves}
    assert found == dict.fromkeys({*declared, *ADD, "remove_jobs"}, "common.jobs")
