"""Ctrl-C and SIGTERM, and what is left when they are done."""

import os
import signal
import time

import pytest

import tfcsr
from tests.conftest import make_spec
from tests.experiments.conftest import SMALL, epochs, essence, flags, history, one_line, wait_for
from tfcsr.cli import main
from tfcsr.experiments.stop import SAME_WISH_SECONDS
from tfcsr.reporting.words import counted

# An epoch of a second or two, in which signals can be sent; and no checkpoint after the first.
SLOW = SMALL | {"method": "finetune", "tasks": 1, "batch_size": 2, "checkpoint_every": 9}
SLOW |= {"model": "mlp", "hidden": 50_000, "max_per_class": 40}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return tfcsr.run(make_spec(**SMALL, method="tfcsr", out=str(out))), history(out)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_run_and_says_how_to_go_on(tmp_path, start, capsys, whole, number, code):
    out = tmp_path / "run"
    process = start("run", *flags(**SMALL, method="tfcsr", out=out))
    wait_for(lambda: epochs(out) > 2)
    process.send_signal(number)
    said = one_line(process, code)
    assert f"`tfcsr resume {out}` goes on" in said
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint", "events.jsonl", "spec.json"]
    done = epochs(out)
    main(["resume", str(out)])
    assert "going on after task" in capsys.readouterr().out
    assert essence(tfcsr.resume(out)) == essence(whole[0])
    assert history(out) == whole[1]
    assert done < epochs(out) == 75


def test_two_signals_at_once_are_one_wish(tmp_path, start):
    """As `timeout` sends them, to the process and to its group."""
    out = tmp_path / "run"
    process = start("run", *flags(**SLOW, out=out))
    wait_for(lambda: epochs(out) == 1)
    time.sleep(0.05)  # until it is in the next
    for _ in range(20):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.002)
    assert "stopped after 2 epochs" in one_line(process, 143)  # it came to the end of the next, and saved
    assert epochs(out) == 2


def test_a_second_signal_stops_at_once_and_harms_nothing(tmp_path, start):
    out = tmp_path / "run"
    process = start("run", *flags(**SLOW, out=out))
    wait_for(lambda: epochs(out) == 1)
    time.sleep(0.05)  # until it is in the next
    process.send_signal(signal.SIGINT)
    time.sleep(2 * SAME_WISH_SECONDS)  # it may be asked a little after it was sent
    assert process.poll() is None  # one epoch is not saved yet: it goes on to the end of the next
    process.send_signal(signal.SIGTERM)
    assert "stopped" in one_line(process, 143)
    assert epochs(out) == 1  # it did not wait for the end of this one
    assert sorted(path.name for path in out.iterdir()) == ["events.jsonl", "spec.json"]


def complete(folder):
    return len(list(folder.glob("*/result.json")))


def test_a_stopped_comparison_goes_on(tmp_path, start, capsys):
    grid = SMALL | {"epochs": 5}
    process = start("compare", "--methods", "er,ewc", "--seeds", "3", "--workers", "2", *flags(**grid, out=tmp_path))
    wait_for(lambda: complete(tmp_path) >= 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers as well
    assert "the same command goes on" in one_line(process, 130)
    kept = complete(tmp_path)
    assert 2 <= kept < 6
    begun = sorted(path.name for path in tmp_path.iterdir() if not (path / "result.json").exists())
    assert len(begun) <= 2  # a worker may have been between two runs
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    main(["resume", str(tmp_path), "--workers", "1"])
    expected = f"{counted(len(begun), 'run')} in {tmp_path} finished, 0 failed" if begun else "complete"
    assert expected in capsys.readouterr().out.replace("\n", " ")
    assert complete(tmp_path) == kept + len(begun)
    main(["resume", str(tmp_path)])
    assert "complete" in capsys.readouterr().out
    comparison = tfcsr.compare(methods=["er", "ewc"], seeds=3, workers=1, out=tmp_path, **grid)
    alone = tfcsr.compare(methods=["er", "ewc"], seeds=3, workers=1, **grid)
    assert list(map(essence, comparison.results)) == list(map(essence, alone.results))
