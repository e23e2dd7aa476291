"""The test runner counts what ran, and takes silence for a failure."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import gtest_suite  # noqa: E402
import run_tests  # noqa: E402


def program(folder, text, status=0):
    """A CTest entry whose program prints a text and exits."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
    path.chmod(0o755)
    return {"name": "program", "command": [str(path)], "properties": []}


@pytest.mark.parametrize("text, status, counts", [
    ("[==========] 5 tests from 2 test suites ran. (1 ms total)\n[  PASSED  ] 5 tests.", 0, (5, 0, 0)),
    ("[==========] 5 tests from 2 test suites ran. (1 ms total)\n[  PASSED  ] 4 tests.\n"
     "[  SKIPPED ] 1 test, listed below:", 0, (4, 0, 1)),
    ("[==========] 5 tests from 2 test suites ran. (1 ms total)\n[  PASSED  ] 3 tests.\n"
     "[  FAILED  ] 2 tests, listed below:", 1, (3, 2, 0)),
    ("[==========] Running 5 tests from 2 test suites.\n[ RUN      ] A.b", 139, (0, 1, 0)),  # crashed
    ("[==========] Running 5 tests from 2 test suites.\n[ RUN      ] A.b", 0, (0, 1, 0)),  # exit(0) inside
    ("[==========] 1 test from 1 test suite ran. (1 ms total)\n[  PASSED  ] 1 test.", 1, (1, 1, 0)),  # leak report
    ("no GoogleTest at all", 0, (1, 0, 0)),
    ("no GoogleTest at all", 3, (0, 1, 0)),
])
def test_gtest_program_is_counted(tmp_path, text, status, counts):
    outcome = gtest_suite.runOne(run_tests.run, program(tmp_path, text, status), None)
    assert (outcome.passed, outcome.failed, outcome.skipped) == counts


def test_program_that_was_not_built_fails():
    assert gtest_suite.runOne(run_tests.run, {"name": "absent"}, None).failed == 1


def test_build_without_tests_is_an_error(tmp_path):
    with pytest.raises(gtest_suite.ListError):
        gtest_suite.listed(tmp_path, ["test"])


def test_hanging_program_is_stopped():
    status, text = run_tests.run(["sleep", "60"], timeout=0.2)
    assert status == 124 and "hangs" in text


def suiteThat(returns, least=1, where="README.md"):
    return run_tests.Suite("suite", where, "", least, lambda pattern: returns)


def test_suite_that_vanished_fails():
    result = run_tests.runSuite(suiteThat(run_tests.Result(passed=3), where="test/NoSuchFolder"), None)
    assert result.failed == 1


def test_suite_that_ran_nothing_fails():
    assert run_tests.runSuite(suiteThat(run_tests.Result(skipped=4)), None).failed == 1


def test_suite_that_shrank_fails():
    assert run_tests.runSuite(suiteThat(run_tests.Result(passed=499), least=500), None).failed == 1


def test_filtered_suite_may_be_empty():
    assert run_tests.runSuite(suiteThat(run_tests.Result(), least=500), "pattern").failed == 0


def test_unexplained_exit_status_fails():
    assert run_tests.settled(run_tests.Result(passed=7), 1).failed == 1


@pytest.mark.parametrize("script, status, counts", [
    ("exit 0", 0, (1, 0, 0)),
    ("echo no network; exit 77", 77, (0, 0, 1)),
    ("exit 1", 1, (0, 1, 0)),
    ("echo 6 passed, 0 failed, 2 skipped", 0, (6, 0, 2)),
    ("echo 6 passed, 1 failed; exit 1", 1, (6, 1, 0)),
    ("echo 6 passed, 0 failed; exit 1", 1, (6, 1, 0)),  # died after its count
    ("echo 6 passed, 1 failed", 0, (6, 1, 0)),
])
def test_script_is_counted(tmp_path, script, status, counts):
    (tmp_path / "script.sh").write_text(script + "\n")
    (tmp_path / "_support.sh").write_text("exit 1\n")  # not a test
    result = run_tests.scriptSuite(tmp_path, tmp_path)(None)
    assert (result.passed, result.failed, result.skipped) == counts


@pytest.mark.parametrize("filters, names", [
    ([], ["units", "runtime", "lit", "roundtrip", "python", "onnx", "fuzz", "integration", "cuda"]),
    (["lit"], ["lit"]),
    (["onnx:conv", "units"], ["onnx:conv", "units"]),
])
def test_filters_choose_suites(tmp_path, filters, names):
    pairs = run_tests.chosen(run_tests.allSuites(tmp_path), filters)
    assert [suite.name + (f":{pattern}" if pattern else "") for suite, pattern in pairs] == names
