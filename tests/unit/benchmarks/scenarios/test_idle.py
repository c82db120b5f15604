"""Statements are counted by the service that sent them."""

from benchmarks.scenarios.idle import count_statements

LOG = """\
charonia-dispatcher|LOG:  statement: BEGIN;
charonia-dispatcher|LOG:  execute __asyncpg_stmt_1__: -- name: promote_jobs
\tUPDATE jobs
\tSET status = 'charonia-gateway|LOG:  statement: of the text of a statement'
charonia-dispatcher|DETAIL:  parameters: $1 = '200'
charonia-dispatcher|LOG:  statement: COMMIT;
charonia-notifier|LOG:  execute <unnamed>: SELECT 1
psql|LOG:  statement: SELECT pg_reload_conf()
|LOG:  checkpoint starting: time
"""


def test_statements_are_counted_by_service() -> None:
    assert count_statements(LOG, 2.0) == {"gateway": 0.0, "dispatcher": 1.5, "notifier": 0.5}
