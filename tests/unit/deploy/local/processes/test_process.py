import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from deploy.local.errors import NotReady, ProcessDied
from deploy.local.processes.process import Process
from deploy.local.processes.tree import alive, members


def process(tmp_path: Path, code: str) -> Process:
    log = tmp_path / "log" / "child.log"
    return Process("child", [sys.executable, "-c", code], env=dict(os.environ), cwd=tmp_path, log=log)


def test_death_is_reported_with_its_code_and_the_end_of_the_log(tmp_path: Path) -> None:
    child = process(tmp_path, "print('last words'); raise SystemExit(3)")
    child.start()
    with pytest.raises(ProcessDied, match=r"(?s)code 3.*last words"):
        child.wait_ready(lambda: False, timeout=10)
    child.stop()


def test_waiting_has_a_deadline(tmp_path: Path) -> None:
    child = process(tmp_path, "import time; time.sleep(60)")
    child.start()
    with pytest.raises(NotReady):
        child.wait_ready(lambda: False, timeout=0.1)
    assert child.stop() == -signal.SIGTERM


def test_killing_takes_children_in_other_sessions_along(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.run(['setsid', 'sleep', '60'])"
    child = process(tmp_path, code)
    child.start()
    child.wait_ready(lambda: len(members(child.pid or 0)) == 2, timeout=10)
    family = members(child.pid or 0)
    child.kill()
    assert child.returncode == -signal.SIGKILL
    assert not alive(family)


def test_a_process_that_has_the_number_of_an_ended_one_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, other = process(tmp_path, ""), subprocess.Popen(["sleep", "60"], start_new_session=True)
    child.start()
    child.wait_exit(10)
    assert child._child is not None
    monkeypatch.setattr(child._child, "pid", other.pid)
    child.kill()
    assert alive({other.pid})
    other.kill()
    other.wait()


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    child = process(tmp_path, "print('here', flush=True); import time; time.sleep(60)")
    thread = threading.Thread(target=child.start)
    thread.start()
    thread.join()
    child.wait_ready(lambda: "here" in child.log.tail(), timeout=10)
    assert child.running
    child.stop()


def test_a_frozen_child_can_be_stopped(tmp_path: Path) -> None:
    child = process(tmp_path, "print('here', flush=True); import time; time.sleep(60)")
    child.start()
    child.wait_ready(lambda: "here" in child.log.tail(), timeout=10)
    child.freeze()
    assert child.stop(timeout=10) == -signal.SIGTERM


def test_a_frozen_child_does_nothing_more(tmp_path: Path) -> None:
    start = "threading.Thread(target=print, args=(n,), kwargs={'flush': True}).start()"
    code = f"import itertools, threading\nfor n in itertools.count(): {start}"
    child = process(tmp_path, code)
    child.start()
    child.wait_ready(lambda: "1" in child.log.tail(), timeout=10)
    child.freeze()
    before = child.log.tail()
    with pytest.raises(NotReady):
        child.wait_ready(lambda: child.log.tail() != before, timeout=0.2)
    child.kill()
