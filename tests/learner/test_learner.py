"""A learner that was saved, loaded elsewhere, killed or interrupted ends where it would have ended without."""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.learner.conftest import (
    EACH,
    SHIPPED,
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
    raw,
    refused,
    taught,
)
from tests.learner.elsewhere import KILLED, KILLED_IN, VARIETIES, fields, own_model, patient
from tfcsr import Learner
from tfcsr.errors import DivergedError, OutputError
from tfcsr.spec import LearnerSpec


@pytest.fixture(scope="module")
def abroad(tmp_path_factory):
    """Learners that have been in another process, which are many at once: to import torch takes longest."""
    folder = tmp_path_factory.mktemp("abroad")
    for name in (*SHIPPED, *VARIETIES):
        taught(A, **fields(name)).save(folder / "travelled" / name)
    command = [sys.executable, "-W", "error", "-m", "tests.learner.elsewhere", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return folder


# Saved and loaded


@pytest.fixture(scope="module")
def travelled(abroad):
    """Every learner after its first instalment here and two more there."""
    return abroad / "travelled"


def test_every_method_is_here():
    assert {"tfcsr", "er", "ewc", "si", "derpp", "icarl", "mgp", "joint"} <= set(SHIPPED)


@pytest.mark.parametrize("name", [*SHIPPED, *VARIETIES])
def test_to_the_bit_as_if_it_had_never_been_saved(travelled, name):
    found = Learner.load(travelled / name, model=own_model(name))
    assert set(found.classes) == {*A, *B, *C}
    assert_alike(found, taught(A, B, C, **fields(name)))


@pytest.mark.parametrize("name", ["tfcsr", "icarl", "bf16"])
def test_it_goes_on_to_the_same_answers(travelled, name):
    x, _ = images((*A, *B), seed=5)
    found, straight = Learner.load(travelled / name, model=own_model(name)), taught(A, B, C, **fields(name))
    np.testing.assert_array_equal(found.predict_proba(x), straight.predict_proba(x))
    if name != "bf16":
        assert found.recall() == straight.recall()


def test_saved_before_it_has_learned_anything(folder):
    make().save(folder)
    learner = Learner.load(folder, model=mlp)
    assert learner.classes == []
    learner.learn(*images(A))
    assert_alike(learner, taught(A))


def test_what_is_asked_in_between_changes_nothing():
    quiet, asked = make(), make()
    x, y = images(A, seed=3)
    for labels in (A, B, C):
        quiet.learn(*images(labels))
        asked.learn(*images(labels))
        asked.predict(x)
        asked.predict_proba(x)
        asked.recall()
        asked.evaluate(x, y)
        _ = asked.history, asked.state_dict(), repr(asked), asked.settings(), asked.model
    one, other = essence(asked), essence(quiet)
    assert len(one.pop("evaluations")) == 3
    assert other.pop("evaluations") == []
    assert_alike(one, other)


def test_the_examples_given_are_left_as_they_are_and_not_looked_at_again():
    learner, straight = make("joint"), taught(A, B, method="joint")
    for labels in (A, B):
        x, y = images(labels)
        before = x.copy()
        learner.learn(x, y)
        np.testing.assert_array_equal(x, before)
        x[:] = 0
    assert_alike(learner, straight)


def test_the_global_generators_are_neither_used_nor_moved():
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        learner = taught(A, B)
        learner.recall()
        assert torch.equal(torch.get_rng_state(), before)
        states.append(essence(learner))
    assert_alike(*states)


def test_another_seed_gives_another_network():
    one, other = taught(A, seed=0), taught(A, seed=1)
    assert differences(essence(one)["loop"]["model"], essence(other)["loop"]["model"]) != []


def test_what_it_tells_is_kept_with_every_instalment(folder):
    learner = taught(A)
    learner.save(folder)
    learner.learn(*images(B))
    learner.learn(*images(C))
    learner.save(folder)
    learner = Learner.load(folder, model=mlp)
    learner.learn(*images(("h",)))
    learner.save(folder)
    told = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["task"] for event in told if event["event"] == "task_started"] == [2, 3, 4]


# Killed


@pytest.fixture(scope="module")
def killed(abroad):
    """Learners whose process was killed while they learned."""
    return abroad / "killed"


CASES = [(method, when) for method in KILLED for when in ("first", "later")]


def _never_killed(method: str, when: str) -> Learner:
    learner = patient(method)
    for labels in (A,) if when == "first" else (A, B):
        learner.learn(*images(labels))
    return learner


@pytest.mark.parametrize(("method", "when"), CASES)
def test_a_learn_that_was_killed_goes_on(killed, tmp_path, method, when):
    labels = A if when == "first" else B
    folder = Path(shutil.copytree(killed / f"{method}-{when}", tmp_path / "learner"))
    learner = Learner.load(folder, model=mlp)
    assert learner.is_learning
    before = essence(learner)
    with refused("arrays", f"epoch {KILLED_IN - 1} of 4", "resume=True", "resume=False"):
        learner.learn(*images(labels))
    with refused("other data", "resume=False"):
        learner.learn(*images(labels, seed=1), resume=True)
    if method != "mgp":
        with refused("4 epochs, not 7"):
            learner.learn(*images(labels), epochs=7, resume=True)
    assert_alike(learner, before)
    epochs = []
    learner.learn(*images(labels), resume=True, listeners=[lambda e: epochs.append(e.get("epoch"))])
    assert set(epochs) - {None} == {3, 4}
    assert_alike(learner, _never_killed(method, when))
    learner.save(folder)
    assert not learner.is_learning
    again = Learner.load(folder, model=mlp)
    assert_alike(again, learner)
    told = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [e["epoch"] for e in told if e["event"] == "epoch_finished"] == [1, 2, 3, 4]


@pytest.mark.parametrize(("method", "when"), CASES)
def test_or_starts_over(killed, tmp_path, method, when):
    labels = A if when == "first" else B
    learner = Learner.load(Path(shutil.copytree(killed / f"{method}-{when}", tmp_path / "l")), model=mlp)
    learner.learn(*images(labels), resume=False)
    assert_alike(learner, _never_killed(method, when))


def test_it_may_start_over_with_other_data(killed, tmp_path):
    learner = Learner.load(Path(shutil.copytree(killed / "tfcsr-later", tmp_path / "l")), model=mlp)
    learner.learn(*images(C), resume=False)
    straight = patient("tfcsr")
    straight.learn(*images(A))
    straight.learn(*images(C))
    assert_alike(learner, straight)


def test_what_was_forgotten_does_not_come_back_with_a_learn_that_goes_on(killed, tmp_path):
    learner = Learner.load(Path(shutil.copytree(killed / "tfcsr-later", tmp_path / "l")), model=mlp)
    with pytest.raises(OutputError, match="not finished"):
        learner.forget("n")
    learner.learn(*images(B), resume=True)
    assert learner.forget("n") > 0
    assert learner.recall().kept["n"] == 0


@pytest.mark.parametrize("method", ["tfcsr", "derpp", "ewc", "icarl", "joint", "mgp", "si"])
def test_a_learn_that_was_done_and_not_saved_is_done_again_without_its_epochs(folder, method):
    learner = make(method, checkpoint_every=1)
    learner.learn(*images(A))
    learner.save(folder)
    learner.learn(*images(B))
    other = Learner.load(folder, model=mlp)
    steps = []
    other.learn(*images(B), resume=True, listeners=[lambda e: steps.append(e) if e["event"] == "step" else None])
    assert steps == []
    assert_alike(other, learner)


def test_two_learns_of_which_the_second_was_killed(folder):
    learner = make(checkpoint_every=1)
    learner.save(folder)
    learner.learn(*images(A))
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(B), listeners=[_interrupt_later])
    other = Learner.load(folder, model=mlp)
    assert other.classes == []
    with refused("other data"):
        other.learn(*images(A), resume=True)
    other.learn(*images(B), resume=True)
    assert_alike(other, taught(A, B, checkpoint_every=1))


def test_interrupted_again_and_again(folder):
    learner = make(epochs=4, checkpoint_every=1)
    learner.save(folder)
    for epoch in (2, 3, 4):

        def interrupt(event, epoch=epoch):
            if event["event"] == "step" and event["epoch"] == epoch:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            learner.learn(*images(A), resume=epoch > 2, listeners=[interrupt])
        assert learner.classes == []
    learner.learn(*images(A), resume=True)
    assert_alike(learner, taught(A, epochs=4, checkpoint_every=1))
    told = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [e["epoch"] for e in told if e["event"] == "epoch_finished"] == [1, 2, 3, 4]


def test_what_it_tells_is_told_once_after_a_resumed_learn_was_given_up(folder):
    learner = make(epochs=4, checkpoint_every=1)
    learner.save(folder)
    for resume in (None, True):
        with pytest.raises(KeyboardInterrupt):
            learner.learn(*images(A), resume=resume, listeners=[_interrupt_later if resume is None else _interrupt])
    learner.learn(*images(A), resume=False)
    told = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [e["epoch"] for e in told if e["event"] == "epoch_finished"] == [1, 2, 3, 4]
    assert len([e for e in told if e["event"] == "task_started"]) == 1


def test_what_was_found_stays_found_when_a_learn_goes_on(killed, tmp_path):
    learner = Learner.load(Path(shutil.copytree(killed / "tfcsr-later", tmp_path / "l")), model=mlp)
    learner.evaluate(*images(A))
    learner.learn(*images(B), resume=True)
    assert len(learner.state_dict()["evaluations"]) == 1


def test_there_is_nothing_to_resume_without_a_folder():
    with refused("nothing to resume"):
        make().learn(*images(A), resume=True)


def test_to_resume_where_nothing_was_begun_is_to_begin(folder):
    learner = make()
    learner.save(folder)
    learner.learn(*images(A), resume=True)
    assert_alike(learner, taught(A))


# Failed


class Spoiled(Exception):
    pass


def _spoil(x):
    raise Spoiled


def _interrupt(event):
    if event["event"] == "step" and event["step"] == 3:
        raise KeyboardInterrupt


def _interrupt_later(event):
    if event["event"] == "step" and event["epoch"] == 2:
        raise KeyboardInterrupt


def _nan(x):
    x = x.astype(np.float32)
    x[3] = np.nan
    return x


def _own() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 10))


def _fail(learner: Learner, how: str) -> None:
    x, y = images(B)
    if how == "diverged":
        with pytest.raises(DivergedError, match="smaller lr"):
            learner.learn(x, y, listeners=[_poison(learner)])
    elif how == "transform":
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(SWITCH, "transform", _spoil)
            with pytest.raises(Spoiled):
                learner.learn(x, y)
    elif how == "listener":
        with pytest.raises(KeyboardInterrupt):
            learner.learn(x, y, listeners=[_interrupt])
    elif how == "dtype":
        with refused("float32", "uint8"):
            learner.learn(x.astype(np.float32), y)
    else:
        with refused("[N, 1, 8, 7]", "[N, 1, 8, 8]"):
            learner.learn(x[..., :-1], y)


SWITCH = {"transform": lambda x: x.flip(-1)}


def _switched(x):
    return SWITCH["transform"](x)


def _poison(learner):
    """Too large a weight, after two steps."""

    def listener(event):
        if event["event"] == "step" and event["step"] == 2:
            with torch.no_grad():
                next(learner.model.parameters()).fill_(float("inf"))

    return listener


LATER = ["diverged", "transform", "listener", "dtype", "shape"]


@pytest.mark.parametrize("method", ["tfcsr", "derpp", "si", "icarl", "joint", "mgp"])
def test_a_learn_that_failed_leaves_it_as_it_was(method):
    module = _own()
    learner, straight = (make(method, model=m, transform=_switched) for m in (module, _own()))
    learner.learn(*images(A))
    straight.learn(*images(A))
    for how in LATER:
        before, weights = essence(learner), {name: raw(t) for name, t in module.state_dict().items()}
        head = module[-1].out_features
        _fail(learner, how)
        assert differences(essence(learner), before) == [], how
        assert {name: raw(t) for name, t in module.state_dict().items()} == weights
        assert module[-1].out_features == head == 2
        assert learner.model is module
        assert learner.classes == list(dict.fromkeys(images(A)[1]))
    for labels in (B, C):
        learner.learn(*images(labels))
        straight.learn(*images(labels))
    assert_alike(learner, straight)


@pytest.mark.parametrize("how", ["diverged", "transform", "listener"])
@pytest.mark.parametrize("given", ["module", "function"])
def test_the_first_learn_of_all_that_failed_leaves_nothing_behind(how, given):
    module = _own()
    before = {name: raw(t) for name, t in module.state_dict().items()}
    modes = [m.training for m in module.modules()]
    learner = make(model=module if given == "module" else mlp, transform=_switched)
    _fail(learner, how)
    assert learner.classes == []
    assert learner.history == []
    assert {name: raw(t) for name, t in module.state_dict().items()} == before
    assert module[-1].out_features == 10
    assert [m.training for m in module.modules()] == modes
    with refused("learned nothing yet"):
        learner.predict(images(A)[0])
    straight = make(model=_own() if given == "module" else mlp, transform=_switched)
    for labels in (A, B):
        learner.learn(*images(labels))
        straight.learn(*images(labels))
    assert_alike(learner, straight)


def test_a_module_in_eval_mode_is_so_again_after_a_first_learn_that_failed():
    module = _own().eval()
    learner = make(model=module)
    _fail(learner, "listener")
    assert [m.training for m in module.modules()] == [False] * 6


def test_the_first_examples_may_be_wrong_too():
    learner = make()
    for x, y in ((_nan(images(A)[0]), images(A)[1]), (np.zeros((0, 1, 8, 8), np.uint8), [])):
        with refused():
            learner.learn(x, y)
    learner.learn(*images(A))
    assert_alike(learner, taught(A))


def test_a_number_that_is_none_is_refused_later_too():
    learner, straight = make(), make()
    for one in (learner, straight):
        one.learn(*features(("m", "n")))
    x, y = features(("b", "m"))
    x[7, 2] = np.inf
    with refused("example 7", "not finite"):
        learner.learn(x, y)
    for one in (learner, straight):
        one.learn(*features(("b", "m")))
    assert_alike(learner, straight)


def test_a_rate_that_is_too_high_is_told():
    learner = make("er", optimizer="sgd", lr=1e3, epochs=20)
    before = essence(learner)
    with pytest.raises(DivergedError, match="smaller lr"):
        learner.learn(images(A)[0].astype(np.float64) * 1e6, images(A)[1])
    assert_alike(learner, before)


def test_a_learn_in_a_folder_that_failed_leaves_it_as_it_was(folder):
    learner = taught(A, checkpoint_every=1)
    learner.save(folder)
    before = essence(learner)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(B), listeners=[_interrupt_later])
    assert_alike(learner, before)
    assert_alike(Learner.load(folder, model=mlp), before)
    learner.learn(*images(B), resume=True)
    assert_alike(learner, taught(A, B, checkpoint_every=1))


def test_what_was_asked_of_it_is_as_it_was_after_a_failure():
    learner = taught(A)
    learner.evaluate(*images(A, seed=4))
    x, _ = images(A, seed=5)
    recall, answers, history = learner.recall(), learner.predict_proba(x), learner.history
    _fail(learner, "listener")
    assert learner.recall() == recall
    assert learner.history == history
    np.testing.assert_array_equal(learner.predict_proba(x), answers)


def test_a_wish_to_stop_is_obeyed():
    from tfcsr.experiments.stop import Stop

    stop = Stop()
    learner = taught(A)
    before = essence(learner)
    with pytest.raises(KeyboardInterrupt, match="as it was before"):
        learner.learn(*images(B), stop=stop, listeners=[lambda e: stop.request()])
    assert_alike(learner, before)


# What it is


def test_what_it_says_of_itself():
    learner = taught(A, B)
    assert "4 classes in 2 instalments" in repr(learner)
    first, second = learner.history
    assert set(first.new_classes) == set(A)
    assert set(second.new_classes) == {"a", "b"}
    assert second.known_classes == ("m",)
    assert (first.number, first.examples, first.epochs) == (1, 2 * EACH, 2)
    assert second.steps > 0
    assert second.per_class.keys() == set(learner.classes)
    assert second.source == "arrays"


def test_it_knows_what_it_has_just_learned(folder):
    learner = taught(A)
    assert learner.has_just_learned(*images(A))
    assert not learner.has_just_learned(*images(A, seed=1))
    learner.save(folder)
    learner.learn(*images(B))
    assert learner.has_just_learned(*images(B))
    assert not learner.has_just_learned(*images(A))


def test_options_that_do_not_exist_are_refused():
    with refused("buffer_capacty", "buffer_capacity"):
        Learner("cnn", "tfcsr", buffer_capacty=3)
    with refused("benchmark"):
        Learner("cnn", "tfcsr", benchmark="split-digits")
    with refused("neither a name"):
        Learner(3)
    with refused("unknown model"):
        Learner("cnnn")
    with refused("both given"):
        Learner(transform=_switched, transform_each=_switched)
    with refused("epochs"):
        taught(A).learn(*images(B), epochs=0)


def test_a_learn_may_have_epochs_of_its_own():
    learner = taught(A)
    assert learner.learn(*images(B), epochs=5).epochs == 5
    assert learner.learn(*images(C)).epochs == 2


def test_copies_are_apart():
    learner = taught(A)
    state = copy.deepcopy(learner.state_dict())
    learner.learn(*images(B))
    assert len(state["labels"]) == 2


def test_what_is_noted_is_not_copied_with_every_instalment(monkeypatch):
    """A learn that fails goes back to what was noted before; to have it, nothing that is noted need be copied."""
    learner = taught(A, B, method="tfcsr", epochs=2)
    noted = [*learner._history.instalments, *learner._history.probes, *learner._loop.learner.probes]
    assert len(noted) > 4
    before = json.dumps(learner._history.state_dict())
    kept = learner._snapshot()
    again = [*kept["instalments"], *kept["probes"], *kept["loop"]["probes"]]
    assert [id(entry) for entry in again] == [id(entry) for entry in noted]
    weights = learner._loop.model.state_dict()
    assert not any(kept["loop"]["model"][name].data_ptr() == weight.data_ptr() for name, weight in weights.items())

    def fail(*_):
        raise ValueError("the disk is on fire")

    monkeypatch.setattr(Learner, "_done", fail)
    x, y = images(C)
    with pytest.raises(ValueError, match="fire"):
        learner.learn(x, y)
    assert json.dumps(learner._history.state_dict()) == before
    assert len(learner._loop.learner.probes) == len(kept["loop"]["probes"])


def test_without_a_name_it_has_our_own_method():
    assert Learner().spec.method == LearnerSpec.fields()["method"].default == LearnerSpec().method == "tfcsr-distill"
