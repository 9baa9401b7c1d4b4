"""What machines do to long runs, done to short ones: a clear line, exit code 2, and nothing lost."""

import os
import resource
import shutil
import signal
import subprocess

import pytest

import tfcsr
from tests.conftest import make_spec
from tests.experiments.conftest import SMALL, epochs, essence, flags, history, one_line, wait_for
from tfcsr.errors import BusyError, OutputError
from tfcsr.files import locked

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
FIELDS = SMALL | {"method": "er", "epochs": 12}


def mount(*arguments):
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


@pytest.fixture
def mounted(tmp_path):
    place = tmp_path / "mounted"
    place.mkdir()
    yield place
    subprocess.run(["umount", str(place)], check=False, capture_output=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run, left alone."""
    return tfcsr.run(make_spec(**FIELDS, out=str(tmp_path_factory.mktemp("whole") / "run")))


def goes_on(out, whole):
    result = tfcsr.run(make_spec(**FIELDS, out=str(out)))
    assert essence(result) == essence(whole)
    assert len(history(out)) == len({str(event) for event in history(out)})
    return True


@needs_root
def test_a_disk_that_fills_up(mounted, start, whole):
    mount("-t", "tmpfs", "-o", "size=1600k", "tmpfs", mounted)
    out = mounted / "run"
    said = one_line(start("run", *flags(**FIELDS, out=out)), 2)
    assert f"cannot write {out}/checkpoint/" in said
    assert "No space left on device; make room there" in said
    assert 1 <= epochs(out) < 60
    assert not (out / ".lock").exists()
    assert not list(out.rglob("*.part"))
    assert list((out / "checkpoint").glob("*.json"))
    mount("-o", "remount,size=20m", mounted)
    assert goes_on(out, whole)


def test_a_limit_on_the_size_of_files(tmp_path, start, whole):
    out = tmp_path / "run"
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # noqa: E731
    said = one_line(start("run", *flags(**FIELDS, out=out), preexec_fn=limit), 2)
    assert "File too large" in said
    assert goes_on(out, whole)


@needs_root
def test_a_disk_that_is_read_only(tmp_path, mounted, start, whole):
    source = tmp_path / "source"
    done, begun = source / "done", source / "begun"
    tfcsr.run(make_spec(**FIELDS, out=str(done)))
    process = start("run", *flags(**FIELDS, out=begun))
    wait_for(lambda: epochs(begun) > 2)
    process.kill()
    process.communicate()
    mount("--bind", source, mounted)
    mount("-o", "remount,ro,bind", mounted)
    for name in ("begun", "new"):
        with pytest.raises(OutputError, match=rf"cannot write {mounted}/{name}.*: Read-only file system"):
            tfcsr.run(make_spec(**FIELDS, out=str(mounted / name)))
    assert essence(tfcsr.run(make_spec(**FIELDS, out=str(mounted / "done")))) == essence(whole)
    assert goes_on(begun, whole)


def test_a_folder_removed_midway(tmp_path, start, whole):
    out = tmp_path / "run"
    process = start("run", *flags(**FIELDS | {"epochs": 1000}, out=out))
    wait_for(lambda: epochs(out) > 2)
    (tmp_path / "run").rename(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    said = one_line(process, 2)
    assert "No such file or directory" in said
    assert not out.exists()
    assert goes_on(out, whole)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path, start, whole):
    out = tmp_path / "run"
    first = start("run", *flags(**FIELDS | {"epochs": 1000}, out=out))
    wait_for(lambda: epochs(out) > 2)
    second = start("run", *flags(**FIELDS | {"epochs": 1000}, out=out))
    assert f"another process is at work in {out}" in one_line(second, 2)
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert (out / ".lock").exists()
    shutil.rmtree(out / "checkpoint")  # of a longer run
    (out / "spec.json").unlink()
    (out / "events.jsonl").unlink()
    assert goes_on(out, whole)


def test_two_comparisons_share_a_folder(tmp_path, start):
    grid = SMALL | {"epochs": 4}
    arguments = ["compare", "--methods", "er,si", "--seeds", "3", "--workers", "1", *flags(**grid, out=tmp_path)]
    both = [start(*arguments), start(*arguments)]
    for process in both:
        said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert 1 <= said[0].count("/6 ") < 6  # its share
    alone = tfcsr.compare(methods=["er", "si"], seeds=3, workers=1, **grid)
    shared = tfcsr.compare(methods=["er", "si"], seeds=3, workers=1, out=tmp_path, **grid)
    assert list(map(essence, shared.results)) == list(map(essence, alone.results))
    for result in shared.results:
        kinds = [event["event"] for event in history(tmp_path / tfcsr.RunSpec.from_dict(result.spec).name())]
        assert (kinds.count("run_started"), kinds.count("epoch_finished"), kinds[-1]) == (1, 20, "run_finished")


def test_a_busy_run_is_waited_for(tmp_path):
    """What another process has in hand is read when that is done, not run twice and not called failed."""
    spec = make_spec(method="er", seed=1, epochs=1)
    seen = []

    def watcher(now, news):
        seen.append((now.seed, type(news).__name__))
        if news == news and now.seed == 2 and not isinstance(news, dict):
            held.__exit__(None, None, None)

    folder = tmp_path / spec.name()
    folder.mkdir()
    held = locked(folder)
    held.__enter__()
    with pytest.raises(BusyError):
        tfcsr.run(spec.replace(out=str(folder)))
    comparison = tfcsr.compare(
        methods="er",
        seeds=[1, 2],
        benchmark="tiny",
        epochs=1,
        device="cpu",
        out=tmp_path,
        watcher=watcher,
    )
    assert [entry for entry in seen if entry[1] != "dict"] == [(2, "Result"), (1, "Result")]
    assert len(comparison.results) == 2
    assert not comparison.errors


def test_a_lock_is_one_and_leaves_nothing(tmp_path):
    with locked(tmp_path), pytest.raises(BusyError, match="another process is at work"), locked(tmp_path):
        pytest.fail("two at once")
    assert not list(tmp_path.iterdir())
    with locked(tmp_path):
        pass


def test_a_lock_on_a_file_that_is_gone_is_none(tmp_path, monkeypatch):
    """Between opening the file and locking it, its last holder may remove it, and another make a new one."""
    import fcntl

    calls = []

    def flock(file, how):
        calls.append(how)
        if len(calls) == 1:
            (tmp_path / ".lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path):
        assert len(calls) == 2
        assert (tmp_path / ".lock").exists()


def test_workers_end_with_their_parent(tmp_path, start):
    grid = SMALL | {"epochs": 40}
    process = start("compare", "--methods", "er", "--seeds", "2", "--workers", "2", *flags(**grid, out=tmp_path))
    wait_for(lambda: len({path.parent for path in tmp_path.glob("*/checkpoint/*.json")}) == 2)
    process.kill()
    process.communicate()

    def nobody():
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(nobody, seconds=20)
    begun = [path.parent for path in tmp_path.glob("*/spec.json")]
    assert len(begun) == 2
    assert not list(tmp_path.glob("*/result.json"))
    with locked(begun[0]):  # the kernel gave it back
        pass
