"""A plan is there before the first run, as long as its process is, and says what is still to come."""

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

import tfcsr
from tests.conftest import make_spec
from tests.experiments.conftest import SMALL, flags, wait_for
from tfcsr.errors import OutputError
from tfcsr.experiments.compare import execute
from tfcsr.experiments.plan import FILE, PREFIX, Plan, announced
from tfcsr.experiments.reading import Outlook, Results
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.files import locked

QUICK = {"benchmark": "tiny", "device": "cpu", "epochs": 2, "workers": 1}


def specs_in(folder: Path, *names: str) -> list[tfcsr.RunSpec]:
    return [make_spec(method=name.partition("-")[0], out=str(folder / name)) for name in names]


def outlook(folder: Path) -> Outlook:
    results = Results(folder)
    results.look()
    return results.outlook()


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    tfcsr.run(make_spec(method="er", epochs=3, out=str(out)))
    return out


def complete(whole: Path, folder: Path, seconds: float) -> None:
    shutil.copytree(whole, folder)
    values = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(values | {"seconds": seconds}))


def begun(whole: Path, folder: Path, epochs: int, pace: float = 2.0) -> None:
    """A run of 2 tasks of 5 epochs each, so many epochs into the first."""
    folder.mkdir()
    shutil.copy(whole / "spec.json", folder)
    events = [{"event": "run_started", "time": 0, "tasks": [[0], [1]]}, {"event": "task_started", "task": 1, "time": 1}]
    for epoch in range(1, epochs + 1):
        time = 1 + pace * epoch
        events.append({"event": "epoch_finished", "task": 1, "epoch": epoch, "epochs": 5, "time": time})
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def test_a_comparison_says_first_what_it_will_run(tmp_path):
    seen = []

    def watcher(spec, news):
        if not seen:
            (path,) = tmp_path.glob(f"{PREFIX}*/{FILE}")
            seen.append((Plan.read(path), outlook(tmp_path).waiting, [p.name for p in tmp_path.glob("[!.]*")]))

    tfcsr.compare(methods=["er", "finetune"], seeds=2, out=tmp_path, watcher=watcher, **QUICK)
    ((plan, waiting, there),) = seen
    assert list(plan.runs.values()) == ["er", "finetune"] * 2
    assert plan.at_once == 1
    assert {path.parent.name for path in tmp_path.glob("*/result.json")} == set(plan.runs)
    assert (waiting, len(there)) == (3, 1)  # at the first event of the first run
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_two_comparisons_in_one_folder_have_a_plan_each(tmp_path):
    with announced(specs_in(tmp_path, "er-0", "er-1"), 2), announced(specs_in(tmp_path, "er-1", "joint-0"), 1):
        assert len(list(tmp_path.glob(f"{PREFIX}*/{FILE}"))) == 2
        assert outlook(tmp_path).waiting == 3  # what both plan is one run
    assert files(tmp_path) == set()


def test_what_is_complete_is_not_announced(tmp_path, monkeypatch):
    tfcsr.compare(methods="er", seeds=1, out=tmp_path, **QUICK)
    monkeypatch.setattr("tfcsr.experiments.plan._announced", None)
    tfcsr.compare(methods="er", seeds=1, out=tmp_path, **QUICK)
    tfcsr.compare(methods="er", seeds=1, **QUICK)  # nor what keeps nothing


def test_resume_announces_as_well(tmp_path):
    stop, told = Stop(), []

    def halt(spec, news):
        stop.request(signal.SIGINT)

    specs = [make_spec(method="er", seed=seed, epochs=3, out=str(tmp_path / f"run{seed}")) for seed in (0, 1)]
    with pytest.raises(Interrupted):
        execute(specs, 1, halt, stop)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
    execute(specs, 1, lambda spec, news: told.append(len(list(tmp_path.glob(f"{PREFIX}*/{FILE}")))))
    assert set(told) == {1}


def test_a_folder_made_for_the_plan_alone_goes_with_it(tmp_path):
    with announced(specs_in(tmp_path / "a" / "b", "er-0"), 1):
        assert (tmp_path / "a" / "b").is_dir()
    assert files(tmp_path) == set()


def test_a_killed_comparison_plans_nothing_and_the_next_clears_it_away(tmp_path, start):
    small = SMALL | {"epochs": 400, "methods": "er,finetune", "seeds": 2, "workers": 1, "out": tmp_path}
    process = start("compare", *flags(**{k: v for k, v in small.items() if k != "threads"}))
    wait_for(lambda: list(tmp_path.glob("*/events.jsonl")))
    assert outlook(tmp_path).waiting == 3
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list(tmp_path.glob(f"{PREFIX}*/{FILE}"))) == 1
    assert outlook(tmp_path) == Outlook(0, None)
    with announced(specs_in(tmp_path, "er-0"), 1):
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
        assert outlook(tmp_path).waiting == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"at_once": 1}',
        '{"at_once": -1, "runs": []}',
        '{"at_once": true, "runs": []}',
        '{"at_once": 1e999, "runs": []}',
        '{"at_once": 1, "runs": "ab"}',
        '{"at_once": 1, "runs": [{"run": ["x"], "method": "er"}]}',
        '{"at_once": 1, "runs": [{"run": "x", "method": 3}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_plan_is_ignored(tmp_path, text):
    with announced(specs_in(tmp_path, "er-0"), 1):
        (path,) = tmp_path.glob(f"{PREFIX}*/{FILE}")
        path.write_text(text)
        with pytest.raises(OutputError, match="damaged"):
            Plan.read(path)
        assert outlook(tmp_path) == Outlook(0, None)


def test_a_disk_that_refuses_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"), announced(specs_in(tmp_path / "file", "er-0"), 1):
        pass


@pytest.mark.parametrize(
    ("at_once", "seconds"),
    # Three wait, of 10, 10 and 30 seconds, beside one that needs 14 more.
    [(1, 14 + 10 + 10 + 30), (2, max(14 + 30, 10 + 10)), (3, 10 + 30), (4, 30), (0, 64)],
)
def test_time_is_counted_by_places(whole, tmp_path, at_once, seconds):
    for name, took in (("finetune-0", 10), ("joint-0", 30)):
        complete(whole, tmp_path / name, took)
    planned = ["er-0", "finetune-0", "joint-0", "finetune-1", "finetune-2", "joint-1"]
    with announced(specs_in(tmp_path, *planned), at_once):
        begun(whole, tmp_path / "er-0", 3)
        with locked(tmp_path / "er-0"):
            found = outlook(tmp_path)
    assert found == Outlook(3, seconds)


def test_a_method_nobody_has_seen_takes_as_long_as_others(whole, tmp_path):
    with announced(specs_in(tmp_path, "er-0", "joint-0"), 1):
        assert outlook(tmp_path) == Outlook(2, None)  # nothing tells yet
        begun(whole, tmp_path / "er-0", 1)
        with locked(tmp_path / "er-0"):
            assert outlook(tmp_path) == Outlook(1, None)
        shutil.rmtree(tmp_path / "er-0")
        begun(whole, tmp_path / "er-0", 3)
        with locked(tmp_path / "er-0"):
            assert outlook(tmp_path) == Outlook(1, 14 + 20)  # 2 s an epoch, 10 epochs in all
        shutil.rmtree(tmp_path / "er-0")
        complete(whole, tmp_path / "er-0", 7)
        assert outlook(tmp_path) == Outlook(1, 7)


def test_what_ran_by_the_plan_is_timed_by_the_clock(whole, tmp_path):
    with announced(specs_in(tmp_path, "er-0", "er-1"), 1):
        complete(whole, tmp_path / "er-0", 7)
        now = time.time_ns() + 10**9
        for name, later in (("spec.json", 0), ("result.json", 9 * 10**9)):
            os.utime(tmp_path / "er-0" / name, ns=(now + later, now + later))
        assert outlook(tmp_path) == Outlook(1, 9)
        os.utime(tmp_path / "er-0" / "result.json", ns=(now, now))  # it was resumed: only its end is seen
        assert outlook(tmp_path) == Outlook(1, 7)


def test_what_was_stopped_before_goes_on_and_what_failed_since_does_not(whole, tmp_path):
    complete(whole, tmp_path / "er-0", 7)
    begun(whole, tmp_path / "er-1", 1)
    with announced(specs_in(tmp_path, "er-0", "er-1", "er-2"), 1):
        assert outlook(tmp_path) == Outlook(1, 14)  # er-1 is there already, but is to be done
        os.utime(tmp_path / "er-1" / "spec.json")  # begun anew, and ended
        assert outlook(tmp_path) == Outlook(1, 7)
        begun(whole, tmp_path / "er-2", 1)
        assert outlook(tmp_path) == Outlook(0, None)


def test_the_plan_of_a_reproduction_lies_a_folder_deeper(whole, tmp_path):
    with announced(specs_in(tmp_path / "runs", "er-0", "er-1"), 1):
        complete(whole, tmp_path / "runs" / "er-0", 7)
        assert outlook(tmp_path) == Outlook(1, 7)


def test_a_plan_is_news_and_so_is_its_end(tmp_path):
    results = Results(tmp_path)
    results.look()
    with announced(specs_in(tmp_path, "er-0"), 1):
        assert results.look()
        assert not results.look()
    assert results.look()
    assert results.outlook() == Outlook(0, None)


def test_many_may_announce_at_once(tmp_path):
    wrong: list[BaseException] = []

    def announce(number: int) -> None:
        try:
            for i in range(5):
                with announced(specs_in(tmp_path, f"er-{number}-{i}"), 1):
                    pass
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=announce, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert files(tmp_path) == set()
