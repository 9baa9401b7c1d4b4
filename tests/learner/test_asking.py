"""Asking a learner: what it answers, how well, what it still recalls; forgetting, and taking its network elsewhere."""

import json
from typing import Any

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
    dropping,
    essence,
    features,
    images,
    make,
    mlp,
    refused,
    taught,
)
from tfcsr import METHODS, Learner
from tfcsr.errors import SpecError
from tfcsr.methods import learner as of_methods

EVERYTHING = ("m", "n", "b", "a", "c")
WITH_MEMORY = [name for name in SHIPPED if "buffer_capacity" in {option.name for option in METHODS.options(name)}]


def diligent(*instalments: tuple[str, ...], **options: Any) -> Learner:
    return taught(*instalments, **{"epochs": 6, **options})


# Answers


@pytest.mark.parametrize("method", SHIPPED)
def test_probabilities_are_in_the_order_of_the_classes(method):
    learner = taught(A, B, C, method=method)
    x, _ = images(EVERYTHING, seed=4)
    found = learner.predict_proba(x)
    assert found.shape == (len(x), 5)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert found.min() >= 0
    labels = learner.predict(x)
    assert labels.tolist() == [learner.classes[i] for i in found.argmax(axis=1)]


@pytest.mark.parametrize("method", ["er", "icarl", "tfcsr-distill"])
def test_of_many_examples_and_classes_some_are_asked_about_at_a_time(method, monkeypatch):
    learner = diligent(A, B, C, method=method)
    x, y = images(EVERYTHING, seed=4)
    whole = learner.predict(x), learner.predict_proba(x), learner.predict(x, among=["a", "b"]), learner.recall()
    accuracy = learner.evaluate(x, y).accuracy
    monkeypatch.setattr(of_methods, "PART_ON_GPU", 3)
    monkeypatch.setattr(of_methods, "MOST_SCORES", 1)
    asked, predict = [], learner._loop.method.predict
    monkeypatch.setattr(learner._loop.method, "predict", lambda x: asked.append(len(x)) or predict(x))
    np.testing.assert_array_equal(learner.predict(x), whole[0])
    np.testing.assert_allclose(learner.predict_proba(x), whole[1], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(learner.predict(x, among=["a", "b"]), whole[2])
    assert learner.recall() == whole[3]
    assert learner.evaluate(x, y).accuracy == accuracy
    assert max(asked) == 3


def test_answers_are_in_the_users_own_words():
    learner = diligent(A, B, C)
    x, y = images(EVERYTHING, seed=4)
    found = learner.predict(x)
    assert found.dtype.kind == "U"
    assert np.mean(found == np.array(y)) > 0.9
    numbers = make(epochs=10)
    x, y = features((7, -3))
    numbers.learn(x, y)
    assert numbers.predict(x).dtype == np.int64
    assert np.mean(numbers.predict(x) == np.array(y)) > 0.9
    pairs = make(epochs=10)
    pairs.learn(x, [("p", label) for label in y])
    assert pairs.predict(x).dtype == object
    assert {type(label) for label in pairs.predict(x)} == {tuple}


@pytest.mark.parametrize("method", ["er", "icarl"])
def test_the_answer_may_be_restricted_to_labels_that_can_be_meant(method):
    learner = taught(A, B, C, method=method)
    x, _ = images(EVERYTHING, seed=4)
    meant = ["a", learner.classes[0]]
    found, all_of_them = learner.predict_proba(x, meant), learner.predict_proba(x)
    columns = [learner.classes.index(label) for label in meant]
    np.testing.assert_allclose(found[:, columns].sum(axis=1), 1, atol=1e-5)
    # Among themselves they are as likely as they were.
    expected = all_of_them[:, columns] / all_of_them[:, columns].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[:, columns], expected, atol=1e-4)
    assert learner.predict(x, meant).tolist() == [learner.classes[i] for i in found.argmax(axis=1)]
    assert set(learner.predict(x, meant)) <= set(meant)
    with pytest.raises(SpecError, match=r"^among has 'zebra', which was never learned: the classes are "):
        learner.predict(x, ["a", "zebra"])
    with pytest.raises(SpecError, match=r"^among has no label: the classes are "):
        learner.predict(x, [])


def test_each_example_is_answered_by_itself():
    learner = taught(A, B)
    x, _ = images(EVERYTHING, each=40, seed=4)
    whole = learner.predict_proba(x)
    one_by_one = np.concatenate([learner.predict_proba(one[None]) for one in x[:20]])
    np.testing.assert_allclose(whole[:20], one_by_one, atol=1e-5)


def test_the_network_is_what_torch_knows():
    learner = make(normalise="none")
    x, y = features(("m", "n"))
    learner.learn(x, y)
    with torch.no_grad():
        logits = learner.model(torch.from_numpy(x))
    np.testing.assert_allclose(learner.predict_proba(x), logits.softmax(dim=1).numpy(), atol=1e-6)


def test_nothing_is_asked_of_one_that_has_learned_nothing(tmp_path):
    learner = make()
    x, y = images(A)
    for ask in (
        lambda: learner.predict(x),
        lambda: learner.predict_proba(x),
        lambda: learner.evaluate(x, y),
        learner.recall,
        lambda: learner.forget("m"),
        lambda: learner.export(tmp_path / "n.pt2"),
        lambda: learner.model,
        lambda: learner.read_images(["a.png"]),
    ):
        with refused("learned nothing yet", "learn(x, y)"):
            ask()
    assert not learner.has_just_learned(x, y)
    assert not learner.is_learning


def test_a_model_with_dropout_answers_the_same_twice():
    learner = taught(A, B, model=dropping)
    x, _ = images(A, seed=4)
    np.testing.assert_array_equal(learner.predict_proba(x), learner.predict_proba(x))
    assert learner.model.training


# Evaluated


def test_accuracy_of_each_class_and_overall():
    learner = diligent(A, B)
    x, y = images((*A, "a", "b"), seed=6)
    y = ["n" if i % 4 == 0 else label for i, label in enumerate(y)]  # some that it must get wrong
    found = learner.evaluate(x, y)
    answers = learner.predict(x)
    right = np.array([answer == label for answer, label in zip(answers, y, strict=True)])
    assert found.accuracy == pytest.approx(100 * right.mean())
    assert found.examples == len(y)
    assert set(found.per_class) == {*A, "a", "b"}
    for label, value in found.per_class.items():
        assert value == pytest.approx(100 * right[np.array(y) == label].mean())
    assert 0 < found.per_class["n"] < 100


def test_an_unknown_label_counts_as_wrong():
    learner = diligent(A)
    x, y = images(("m", "h"), seed=6)
    found = learner.evaluate(x, y)
    assert found.per_class["h"] == 0
    assert found.accuracy == pytest.approx(found.per_class["m"] / 2)
    assert found.best["h"] == 0
    assert learner.classes == list(dict.fromkeys(images(A)[1]))
    only = learner.evaluate(*images(("h",)))
    assert only.accuracy == 0


def test_the_best_it_ever_was_is_remembered(folder):
    learner = make("finetune", epochs=15, lr=0.02)
    learner.learn(*images(("h", "k")))
    test = images(("h", "k"), seed=8)
    first = learner.evaluate(*test)
    assert first.forgotten == {}
    assert first.best == first.per_class
    for labels in (("a", "d"), ("c", "f")):
        learner.learn(*images(labels))
    later = learner.evaluate(*test)
    assert later.accuracy < first.accuracy - 20
    assert later.best == first.per_class
    assert later.best_accuracy == first.accuracy
    lost = {label: first.per_class[label] - value for label, value in later.per_class.items()}
    assert later.forgotten == {label: points for label, points in lost.items() if points >= 5}
    assert later.forgotten
    assert list(later.forgotten.values()) == sorted(later.forgotten.values(), reverse=True)
    learner.save(folder)
    found = Learner.load(folder, model=mlp)
    assert found.state_dict()["evaluations"] == learner.state_dict()["evaluations"]
    again = found.evaluate(*test)
    assert (again.accuracy, again.best, again.forgotten) == (later.accuracy, later.best, later.forgotten)
    assert again.best_accuracy == first.accuracy
    assert len(found.state_dict()["evaluations"]) == 3
    assert [entry["after"] for entry in found.state_dict()["evaluations"]] == [1, 3, 3]


# Recalled


@pytest.mark.parametrize("method", WITH_MEMORY)
def test_what_is_recalled_of_the_memory(method):
    learner = diligent(A, B, C, method=method)
    found = learner.recall()
    memory = learner.state_dict()["loop"]["buffer"]
    size, labels = memory["size"], memory["y"].tolist()
    assert found.kept == {label: labels.count(i) for i, label in enumerate(learner.classes)}
    assert found.asked == size == 20
    x, y = memory["x"][:size], [learner.classes[i] for i in labels[:size]]
    answers = learner.predict(x)
    right = np.array([answer == label for answer, label in zip(answers, y, strict=True)])
    assert found.overall == pytest.approx(100 * right.mean())
    for label, value in found.per_class.items():
        assert value == pytest.approx(100 * right[np.array(y) == label].mean())
        assert found.best[label] >= value
    assert learner.recall() == found
    assert learner.history[-1].recall == found.overall
    assert learner.history[-1].per_class == found.per_class


@pytest.mark.parametrize("method", [name for name in SHIPPED if name not in WITH_MEMORY])
def test_a_method_without_a_memory_says_so(method):
    learner = taught(A, method=method)
    with refused(method, "evaluate(x, y)"):
        learner.recall()


def test_every_probe_there_was(folder):
    learner = make("tfcsr", epochs=5)
    probes = []
    for labels in (A, B):
        learner.learn(*images(labels), listeners=[lambda e: probes.append(e) if e["event"] == "probe" else None])
    found = learner.recall().history
    assert len(found) == len(probes) > 3
    for kept, told in zip(found, probes, strict=True):
        assert {name: kept[name] for name in ("task", "epoch", "recall", "passed", "next_epoch")} == {
            name: told[name] for name in ("task", "epoch", "recall", "passed", "next_epoch")
        }
        assert kept["per_class"] == {learner.classes[i]: value for i, value in told["per_class"].items()}
    learner.save(folder)
    assert Learner.load(folder, model=mlp).recall() == learner.recall()


def test_what_is_being_forgotten_comes_first():
    learner = make("er", epochs=10, buffer_capacity=6)
    learner.learn(*images(("h", "k")))
    best = learner.recall().per_class
    assert min(best.values()) > 80
    with torch.no_grad():
        learner.model[3].bias[0] -= 1000  # the first class is never the answer any more
    found = learner.recall()
    gone = learner.classes[0]
    assert found.per_class[gone] == 0
    assert found.best == best
    assert next(iter(found.forgotten)) == gone
    assert found.forgotten[gone] == best[gone]


@pytest.mark.parametrize("method", SHIPPED)
def test_asking_leaves_no_trace(method):
    learner = taught(A, B, method=method, model=dropping)
    before, modes = essence(learner), [m.training for m in learner.model.modules()]
    x, y = images(EVERYTHING, seed=2)
    learner.predict(x)
    learner.predict_proba(x)
    if method in WITH_MEMORY:
        learner.recall()
    assert_alike(learner, before)
    learner.evaluate(x, y)
    after = essence(learner)
    assert len(after.pop("evaluations")) == 1
    before.pop("evaluations")
    assert_alike(after, before)
    assert [m.training for m in learner.model.modules()] == modes


# Forgotten on purpose


@pytest.mark.parametrize("policy", ["reservoir", "class-balanced", "herding"])
@pytest.mark.parametrize("method", ["tfcsr", "derpp", "icarl"])
def test_a_class_is_taken_out_of_the_memory(folder, method, policy):
    learner = taught(A, B, method=method, policy=policy)
    kept = dict(learner.recall().kept)
    weights = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    memory = learner.state_dict()["loop"]["buffer"]
    number = learner.classes.index("m")
    others = [memory["x"][i].numpy().tobytes() for i in range(memory["size"]) if int(memory["y"][i]) != number]
    gone = [memory["x"][i].numpy().tobytes() for i in range(memory["size"]) if int(memory["y"][i]) == number]
    assert learner.forget("m") == kept["m"] == len(gone) > 0
    memory = learner.state_dict()["loop"]["buffer"]
    left = [memory["x"][i].numpy().tobytes() for i in range(memory["size"])]
    assert left == others
    everywhere = {row.numpy().tobytes() for row in memory["x"]}
    assert not everywhere & set(gone), "it lies in a slot that counts as empty"
    assert learner.recall().kept == {**kept, "m": 0}
    assert "m" not in learner.recall().per_class
    assert learner.forget("m") == 0
    assert all(torch.equal(tensor, learner.model.state_dict()[name]) for name, tensor in weights.items())
    learner.save(folder)
    found = Learner.load(folder, model=mlp)
    assert found.recall().kept["m"] == 0
    found.learn(*images(C))
    assert found.recall().kept["m"] == 0
    assert found.recall().kept["c"] > 0
    found.learn(*images(("m",), seed=1))
    assert found.recall().kept["m"] > 0
    assert found.recall().asked == 20


def test_everything_may_be_forgotten():
    learner = taught(A)
    for label in A:
        learner.forget(label)
    x, _ = images(A)
    assert learner.predict(x).shape == (len(x),)
    with refused():
        learner.recall()
    learner.learn(*images(B))
    assert learner.recall().asked == 20
    nearest = taught(A, method="icarl")
    for label in A:
        nearest.forget(label)
    assert nearest.predict(x).shape == (len(x),)
    nearest.learn(*images(B))
    assert set(nearest.predict(images(B, seed=3)[0])) <= set(B)


def test_what_is_forgotten_is_not_in_the_data_of_joint_training_either():
    learner = taught(A, B, method="joint")
    assert learner.forget("m") == 2 * EACH
    assert learner.forget("m") == 0
    number = learner.classes.index("m")
    assert all(number not in part["y"].tolist() for part in learner.state_dict()["past"])
    learner.learn(*images(C))
    assert learner.predict(images(C)[0]).shape == (EACH,)


def test_what_was_forgotten_stays_so_if_a_learn_fails():
    learner = taught(A, B)
    learner.forget("m")
    before = essence(learner)

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "step":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(C), listeners=[interrupt])
    assert_alike(learner, before)
    assert learner.recall().kept["m"] == 0


@pytest.mark.parametrize("label", ["x", 0, None, ("m",), 1.5])
def test_a_label_that_was_never_learned_cannot_be_forgotten(label):
    with refused(repr(label), "m", "never learned"):
        taught(A).forget(label)


def test_nor_one_that_is_no_label():
    with refused("[1]"):
        taught(A).forget([1])


def test_a_method_without_a_memory_has_nothing_to_forget():
    assert taught(A, method="ewc").forget("m") == 0


def test_why_there_is_nothing_to_ask_about():
    with refused("nothing to ask about", "method ewc keeps no examples"):
        taught(A, method="ewc").recall()
    learner = taught(A, method="tfcsr-spaced")
    for label in A:
        learner.forget(label)
    with refused("nothing to ask about", "every example kept was forgotten"):
        learner.recall()


# Exported


def _nearby(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def probabilities(scores: np.ndarray) -> np.ndarray:
    return torch.from_numpy(scores).softmax(dim=1).numpy()


@pytest.fixture(scope="module")
def exported():
    """Learners to be exported, and what to ask them about."""
    x, _ = images(EVERYTHING, each=4, seed=5)
    flat = make(epochs=4)
    flat.learn(*features(("m", "n", "b")))
    return {
        "cnn": (taught(A, B, C, model="cnn"), x),
        "mlp": (flat, features(("m", "n"), seed=5)[0]),
        "icarl": (taught(A, B, C, method="icarl"), x),
    }


@pytest.mark.parametrize("name", ["cnn", "mlp", "icarl"])
def test_a_program_for_torch(exported, tmp_path, name):
    learner, x = exported[name]
    before = essence(learner)
    path = learner.export(tmp_path / "network.pt2")
    assert path == tmp_path / "network.pt2"
    extra = {"labels.json": ""}
    network = torch.export.load(path, extra_files=extra).module()
    assert json.loads(extra["labels.json"]) == learner.classes
    for part in (x, x[:1]):
        with torch.no_grad():
            scores = network(torch.from_numpy(part)).numpy()
        _nearby(probabilities(scores), learner.predict_proba(part))
        assert [learner.classes[i] for i in scores.argmax(axis=1)] == learner.predict(part).tolist()
    assert_alike(learner, before)


@pytest.mark.parametrize("name", ["cnn", "mlp", "icarl"])
def test_a_program_for_any_onnx_runtime(exported, tmp_path, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    learner, x = exported[name]
    session = onnxruntime.InferenceSession(learner.export(str(tmp_path / "network.onnx")))
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == learner.classes
    for part in (x, x[:1]):
        (scores,) = session.run(["scores"], {"input": part})
        _nearby(probabilities(scores), learner.predict_proba(part))
        assert [learner.classes[i] for i in scores.argmax(axis=1)] == learner.predict(part).tolist()


def test_a_program_of_one_that_has_been_asked_to_forget(exported, tmp_path):
    learner = taught(A, B, method="icarl")
    learner.forget("m")
    x, _ = images(A, seed=5)
    network = torch.export.load(learner.export(tmp_path / "n.pt2")).module()
    _nearby(probabilities(network(torch.from_numpy(x)).numpy()), learner.predict_proba(x))


def test_labels_of_any_kind_are_text_in_a_program(tmp_path):
    learner = make()
    x, y = features((1, 2))
    learner.learn(x, [("a", 1) if label == 1 else 2 for label in y])
    extra = {"labels.json": ""}
    torch.export.load(learner.export(tmp_path / "n.pt2"), extra_files=extra)
    assert json.loads(extra["labels.json"]) == [str(label) for label in learner.classes]


def test_what_cannot_be_exported_is_told(tmp_path):
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.fc(x.flatten(1))
            return x if float(x.detach().sum()) > 1e9 else x * 1

    with refused("network.txt", ".pt2", ".onnx"):
        taught(A).export(tmp_path / "network.txt")
    with refused("cannot be exported"):
        taught(A, model=Branching(), head="fc").export(tmp_path / "network.pt2")
    with refused(str(tmp_path / "no")):
        taught(A).export(tmp_path / "no" / "network.pt2")
    assert list(tmp_path.iterdir()) == []
