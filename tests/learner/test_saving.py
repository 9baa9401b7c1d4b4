"""A learner's folder: what lies there, what is refused, and that whatever goes wrong while it is written, one of the
two states can be loaded.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import tfcsr.files
import tfcsr.training.checkpoint
from tests.conftest import make_spec
from tests.learner.conftest import (
    A,
    B,
    C,
    assert_alike,
    differences,
    essence,
    features,
    images,
    make,
    mlp,
    refused,
    taught,
)
from tfcsr import Learner, run
from tfcsr.errors import BusyError, OutputError, TfcsrWarning
from tfcsr.experiments.history import history


def files(folder: Path) -> dict[str, bytes]:
    """Everything below a folder; a path that is none is a folder without any."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# What lies there


def test_what_a_folder_holds(folder):
    learner = taught(A, B)
    assert learner.save(folder) == folder
    assert set(files(folder)) == {
        "spec.json",
        "checkpoint/1.json",
        "checkpoint/1.safetensors",
        "model.safetensors",
        "history.json",
        "history/1.jsonl",
    }
    about = json.loads((folder / "spec.json").read_text())
    assert about["learner"] == 1
    assert about["spec"]["method"] == "tfcsr"
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    own = {name: tensor for name, tensor in weights.items() if not name.startswith("tfcsr/")}
    assert own.keys() == learner.model.state_dict().keys()
    for name, tensor in learner.model.state_dict().items():
        assert torch.equal(own[name], tensor)
    told = json.loads((folder / "history.json").read_text())
    assert told["classes"] == learner.classes
    assert sum(told["kept"]) == 20
    assert told["noted"]["entries"]["instalments"] == len(history(folder)["instalments"]) == 2


def test_the_memory_is_in_the_checkpoint_alone(folder):
    learner = taught(A)
    learner.save(folder)
    memory = learner.state_dict()["loop"]["buffer"]["x"][0].numpy().tobytes()
    assert [name for name, data in files(folder).items() if memory in data] == ["checkpoint/1.safetensors"]


def test_saved_twice_and_loaded_twice(folder):
    learner = taught(A)
    learner.save(folder)
    learner.save(str(folder))
    assert [path.name for path in (folder / "checkpoint").iterdir() if path.suffix == ".json"] == ["2.json"]
    assert_alike(Learner.load(folder, model=mlp), Learner.load(str(folder), model=mlp))
    learner.learn(*images(B))
    learner.save(folder)
    assert_alike(Learner.load(folder, model=mlp), learner)
    again = Learner.load(folder, model=mlp)
    again.save(folder)
    assert_alike(Learner.load(folder, model=mlp), again)
    assert len(files(folder)) == 7  # with what it told


def test_a_copy_in_another_folder(folder):
    learner = taught(A)
    learner.save(folder)
    other = folder.with_name("other")
    learner.save(other)
    learner.learn(*images(B))
    learner.save(other)
    assert_alike(Learner.load(folder, model=mlp), taught(A))
    assert_alike(Learner.load(other, model=mlp), taught(A, B))


def test_a_folder_may_be_moved(folder):
    taught(A).save(folder)
    moved = folder.with_name("moved")
    folder.rename(moved)
    found = Learner.load(moved, model=mlp)
    found.learn(*images(B))
    found.save(moved)
    assert_alike(Learner.load(moved, model=mlp), taught(A, B))
    assert not folder.exists()


def test_folders_are_made_on_the_way(folder):
    deep = folder / "a" / "b"
    taught(A).save(deep)
    assert Learner.load(deep, model=mlp).classes


def test_what_was_given_comes_back(folder):
    learner = Learner("cnn", "derpp", size=9, device="cpu", threads=1, epochs=3, buffer_capacity=7, alpha=0.25, seed=5)
    learner.save(folder)
    found = Learner.load(folder)
    assert found.settings() == learner.settings()
    assert found.spec == learner.spec
    assert (found.spec.alpha, found.spec.seed, found.spec.epochs) == (0.25, 5, 3)
    assert repr(found) == repr(learner)


def test_the_network_of_a_run_goes_on_as_a_learner(tmp_path):
    spec = make_spec(method="tfcsr", epochs=1, out=str(tmp_path / "run"), model="tiny-bn")
    run(spec)
    learner = Learner.load(tmp_path / "run")
    assert learner.classes == [f"class {k}" for k in range(6)] or len(learner.classes) == 6
    x = np.zeros((12, 1, 4, 4), np.uint8)
    assert learner.predict(x).shape == (12,)
    assert learner.recall().asked == 24
    learner.learn(x, ["new"] * 12, epochs=1)
    assert len(learner.classes) == 7
    learner.save(tmp_path / "on")
    assert_alike(Learner.load(tmp_path / "on"), learner)
    with refused(str(tmp_path / "run")):
        learner.save(tmp_path / "run")


# Refused


def test_a_folder_of_somebody_elses_is_refused(folder):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    before = files(folder)
    with refused("thesis.tex", str(folder), "choose another"):
        taught(A).save(folder)
    assert files(folder) == before
    with refused("no learner", str(folder)):
        Learner.load(folder)


def test_a_folder_of_another_learner_is_refused(folder):
    taught(A).save(folder)
    before = files(folder)
    with refused(str(folder), "another learner"):
        taught(A).save(folder)
    assert files(folder) == before


def test_a_run_is_refused(tmp_path):
    run(make_spec(method="finetune", epochs=1, out=str(tmp_path / "run")))
    before = files(tmp_path)
    with refused(str(tmp_path / "run")):
        taught(A).save(tmp_path / "run")
    assert files(tmp_path) == before


def test_a_file_is_no_folder(folder):
    folder.write_text("x")
    for place in (folder, folder / "below"):
        with refused("not a folder"):
            taught(A).save(place)
    with refused(str(folder)):
        Learner.load(folder)


def test_what_is_not_there_cannot_be_loaded(folder):
    with refused("no learner", str(folder)):
        Learner.load(folder)
    folder.mkdir()
    with refused("no learner", str(folder)):
        Learner.load(folder)
    assert list(folder.iterdir()) == []


def test_a_learner_of_another_format_is_told(folder):
    taught(A).save(folder)
    about = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps(about | {"learner": 99}))
    with refused("format 99", "reads 1"):
        Learner.load(folder, model=mlp)


@pytest.mark.parametrize("values", [{"size": "x"}, {"size": -1}, {"size": 2.5}, {"head": 3}])
def test_what_could_not_be_loaded_again_is_not_saved(folder, values):
    with refused(str(next(iter(values.values())))):
        Learner("cnn", device="cpu", **values).save(folder)
    assert files(folder) == {}


class Strange:
    """A label that no file can hold."""

    def __repr__(self):
        return "Strange()"


@pytest.mark.parametrize("label", [Strange(), frozenset("a"), b"bytes", ("a", Strange()), 3j])
def test_a_label_that_cannot_be_saved_is_told_before_anything_is_written(folder, label):
    learner = make()
    x, y = features((1, 2))
    learner.learn(x, ["plain" if one == 1 else label for one in y])
    assert label in list(learner.predict(x)) or label in learner.classes
    with refused("cannot be saved", repr(label) if not isinstance(label, tuple) else "Strange()"):
        learner.save(folder)
    assert files(folder) == {}
    learner.learn(x, ["plain"] * len(y))  # it goes on all the same
    with refused("cannot be saved"):
        learner.save(folder)


def test_nothing_of_a_refused_save_is_in_the_way_of_another(folder):
    learner = make()
    x, y = features((1, 2))
    learner.learn(x, [Strange(), *y[1:]])
    with refused("Strange()"):
        learner.save(folder)
    taught(A).save(folder)
    assert Learner.load(folder, model=mlp).classes


def test_a_label_that_cannot_be_saved_stops_a_learn_in_a_folder_and_leaves_it_as_it_was(folder):
    learner = make(checkpoint_every=1)
    x, y = features((1, 2))
    learner.learn(x, y)
    learner.save(folder)
    before = essence(learner)
    with refused("Strange()"):
        learner.learn(x, [Strange(), *y[1:]])
    assert_alike(learner, before)
    learner.learn(x, y, resume=False)


def test_a_busy_folder(folder):
    learner = taught(A)
    learner.save(folder)
    before = essence(learner)
    with tfcsr.files.locked(folder):
        for act in (lambda: learner.save(folder), lambda: learner.learn(*images(B))):
            with pytest.raises(BusyError, match="another process is at work"):
                act()
    assert_alike(learner, before)
    learner.learn(*images(B))


def test_a_folder_that_cannot_be_written_is_learned_from_with_a_warning(folder, monkeypatch):
    learner = taught(A)
    learner.save(folder)
    before = files(folder)
    real = Path.open

    def opened(self: Path, mode: str = "r", *more: Any, **others: Any) -> Any:
        if self.is_relative_to(folder) and mode[0] in "wa":
            raise PermissionError(13, "Permission denied")
        return real(self, mode, *more, **others)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.warns(TfcsrWarning, match=r"Permission denied.* not saved while it goes on"):
        learner.learn(*images(B))
    assert_alike(learner, taught(A, B))
    assert files(folder) == before
    with refused("Permission denied"):
        learner.save(folder)


def test_a_folder_that_is_gone_is_told(folder):
    learner = taught(A)
    learner.save(folder)
    before = essence(learner)
    shutil.rmtree(folder)
    with refused(str(folder)):
        learner.learn(*images(B))
    assert_alike(learner, before)
    learner.save(folder)
    assert_alike(Learner.load(folder, model=mlp), before)


# The history, which is only added to


def test_a_save_writes_of_the_history_what_is_new(folder):
    learner = make(epochs=1)
    written = []
    for _ in range(12):
        learner.learn(*images(A))
        with pytest.MonkeyPatch.context() as patch:
            failing = _failing_at(patch, 0, Killed(), False)
            learner.save(folder)
        written.append(sum(failing.written))
    # A few bytes more are the epochs of each task, the numbers that have another digit, and how long it all took.
    assert max(written[2:]) - min(written[2:]) < 400
    entries = (folder / "history" / "1.jsonl").read_bytes().splitlines()
    assert len(entries) == 12 + len(learner.recall().history)
    assert_alike(Learner.load(folder, model=mlp), learner)


def test_progress_holds_of_the_history_what_is_new(folder):
    learner = make(checkpoint_every=1)
    sizes = []
    for _ in range(6):
        learner.learn(*images(A))
        sizes.append(min(path.stat().st_size for path in folder.glob("learning/*.json")) if sizes else 0)
        learner.save(folder)
        sizes = sizes or [0]
    assert max(sizes[2:]) - min(sizes[2:]) < 400


def test_history_that_somebody_else_has_added_is_not_written_over(folder):
    one = taught(A)
    one.save(folder)
    other = Learner.load(folder, model=mlp)
    for labels in (B, C):
        other.learn(*images(labels), resume=False)
    other.save(folder)
    one.learn(*images(B), resume=False)
    # Were it killed now, the other's would still be there.
    with pytest.MonkeyPatch.context() as patch:
        _failing_at(patch, 2, Killed(), False)
        with pytest.raises(Killed):
            one.save(folder)
    assert_alike(Learner.load(folder, model=mlp), other)
    one.save(folder)
    assert_alike(Learner.load(folder, model=mlp), one)
    assert len(list((folder / "history").iterdir())) == 1


def test_a_folder_whose_checkpoint_has_the_history_still_opens(folder, monkeypatch):
    """As versions before 0.5.0 wrote it."""
    learner = taught(A, B)
    with monkeypatch.context() as patch:
        patch.setattr("tfcsr.learner.keeping.without_history", lambda state, noted: state)
        learner.save(folder)
    shutil.rmtree(folder / "history")
    found = Learner.load(folder, model=mlp)
    assert_alike(found, learner)
    found.learn(*images(C))
    found.save(folder)
    assert_alike(Learner.load(folder, model=mlp), taught(A, B, C))


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"x"])
def test_history_that_is_damaged_is_told(folder, damage):
    taught(A).save(folder)
    (folder / "history" / "1.jsonl").write_bytes(damage)
    with refused(str(folder), "history/1.jsonl is damaged"):
        Learner.load(folder, model=mlp)
    (folder / "history" / "1.jsonl").unlink()
    with refused(str(folder), "history/1.jsonl", "No such file"):
        Learner.load(folder, model=mlp)


# Interrupted


class Killed(BaseException):
    """What no handler catches by accident."""


class Failing:
    """Stands in for the functions that write: the call of this number does not come back. `after`: its work was done;
    or half of it, where something is added to a file.
    """

    def __init__(self, at: int, error: BaseException, after: bool) -> None:
        self.at, self.error, self.after, self.calls = at, error, after, 0
        self.written: list[int] = []
        self.really = tfcsr.files.write_bytes, tfcsr.files.add_bytes

    def write(self, path: Path, data: bytes) -> None:
        self._around(lambda: self.really[0](path, data), lambda: None, len(data))

    def add(self, path: Path, known: int, data: bytes) -> None:
        half = data[: len(data) // 2]
        self._around(lambda: self.really[1](path, known, data), lambda: self.really[1](path, known, half), len(data))

    def _around(self, whole: Any, half: Any, size: int) -> None:
        self.calls += 1
        self.written.append(size)
        if self.calls == self.at and not self.after:
            half()
            raise self.error
        whole()
        if self.calls == self.at:
            raise self.error


MODULES = ("tfcsr.files", "tfcsr.training.checkpoint", "tfcsr.training.model_file", "tfcsr.experiments.history")


def _failing_at(patch: pytest.MonkeyPatch, at: int, error: BaseException, after: bool) -> Failing:
    failing = Failing(at, error, after)
    for module in MODULES:
        patch.setattr(f"{module}.write_bytes", failing.write)
    patch.setattr("tfcsr.experiments.history.add_bytes", failing.add)
    return failing


def _writes(folder: Path) -> int:
    """How many files a save of a learner that was saved before writes."""
    learner = taught(A)
    learner.save(folder)
    learner.learn(*images(B))
    with pytest.MonkeyPatch.context() as patch:
        failing = _failing_at(patch, 0, Killed(), False)
        learner.save(folder)
    return failing.calls


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Killed(), OutputError("no space")], ids=["killed", "full"])
def test_a_save_that_was_killed_leaves_what_was_there_or_what_was_to_be(tmp_path, error, after):
    writes = _writes(tmp_path / "counted")
    assert writes >= 5
    old = essence(taught(A))
    sound = taught(A)
    sound.save(tmp_path / "sound")
    new = essence(taught(A, B))
    found = []
    for at in range(1, writes + 1):
        folder = Path(shutil.copytree(tmp_path / "sound", tmp_path / f"{at}"))
        learner = Learner.load(folder, model=mlp)
        learner.learn(*images(B))
        with pytest.MonkeyPatch.context() as patch:
            _failing_at(patch, at, error, after)
            with pytest.raises(type(error)):
                learner.save(folder)
        loaded = essence(Learner.load(folder, model=mlp))
        state = "old" if differences(loaded, old) == [] else "new" if differences(loaded, new) == [] else "neither"
        found.append(state)
        # What is there can be gone on with, whichever it is.
        later = Learner.load(folder, model=mlp)
        if state == "old":
            later.learn(*images(B), resume=True)
        later.learn(*images(C), resume=False)
        later.save(folder)
        assert_alike(Learner.load(folder, model=mlp), taught(A, B, C))
        # And the one whose save failed can be saved again.
        assert_alike(learner, new)
    assert "neither" not in found
    assert found == sorted(found, reverse=True), "first the old, then the new"


def test_a_save_that_failed_may_be_done_again(folder):
    learner = taught(A)
    learner.save(folder)
    learner.learn(*images(B))
    for at in (1, 2, 3, 4):
        with pytest.MonkeyPatch.context() as patch:
            _failing_at(patch, at, OutputError("no space"), False)
            with pytest.raises(OutputError, match="no space"):
                learner.save(folder)
        assert Learner.load(folder, model=mlp).classes
    learner.save(folder)
    assert_alike(Learner.load(folder, model=mlp), taught(A, B))


def test_a_first_save_that_was_killed_is_told_and_may_be_done_again(tmp_path):
    for at in range(1, 7):
        folder = tmp_path / f"{at}"
        learner = taught(A)
        with pytest.MonkeyPatch.context() as patch:
            _failing_at(patch, at, Killed(), False)
            with pytest.raises(Killed):
                learner.save(folder)
        try:
            assert_alike(Learner.load(folder, model=mlp), learner)
        except OutputError:
            assert at <= 4  # before its state was there
        learner.save(folder)
        assert_alike(Learner.load(folder, model=mlp), learner)


def test_a_disk_that_is_full_while_it_learns(folder):
    learner = taught(A, checkpoint_every=1)
    learner.save(folder)
    before = essence(learner)
    with pytest.MonkeyPatch.context() as patch:
        _failing_at(patch, 3, OutputError("no space"), False)
        with pytest.raises(OutputError, match="no space"):
            learner.learn(*images(B))
    assert_alike(learner, before)
    assert_alike(Learner.load(folder, model=mlp), before)
    learner.learn(*images(B), resume=True)
    assert_alike(learner, taught(A, B, checkpoint_every=1))


def test_damage_to_the_newest_progress_falls_back_to_the_one_before(folder):
    learner = make(epochs=4, checkpoint_every=1)
    learner.save(folder)

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["epoch"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(A), listeners=[interrupt])
    newest = max((folder / "learning").glob("*.safetensors"), key=lambda path: int(path.stem))
    newest.write_bytes(b"")
    epochs = set()
    found = Learner.load(folder, model=mlp)
    found.learn(*images(A), resume=True, listeners=[lambda e: epochs.add(e.get("epoch"))])
    assert epochs - {None} == {3, 4}
    assert_alike(found, taught(A, epochs=4, checkpoint_every=1))


def test_progress_that_is_damaged_beyond_use_is_told_and_may_be_left_behind(folder):
    learner = make(epochs=4, checkpoint_every=1)
    learner.save(folder)

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["epoch"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(A), listeners=[interrupt])
    for path in (folder / "learning").glob("*.json"):
        path.write_text("{")
    found = Learner.load(folder, model=mlp)
    with refused("sound checkpoint"):
        found.learn(*images(A), resume=True)
    found.learn(*images(A), resume=False)
    assert_alike(found, taught(A, epochs=4, checkpoint_every=1))
