"""Folders that somebody else wrote, in good faith or bad: a learner is loaded from one, or an error of ours says why
not. Nothing is run, nothing is fetched, and no more memory is taken than the folder is large.
"""

import builtins
import contextlib
import copy
import hashlib
import json
import random
import resource
import shutil
import socket
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import make_spec
from tests.learner.conftest import A, B, C, images, make, mlp, taught
from tests.nightly.fuzz import BINARY_PIECES, JSON_PIECES, damage, mangled
from tfcsr import Learner, run
from tfcsr.errors import TfcsrError
from tfcsr.training.checkpoint import Checkpoints

MEMORY = 1 << 30
STATM = Path("/proc/self/statm")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A small learner, and one of a network of ours."""
    folder = tmp_path_factory.mktemp("sound")
    learner = taught(A, B)
    learner.evaluate(*images(A))
    learner.save(folder / "mlp")
    taught(A, B, model="cnn", method="derpp").save(folder / "cnn")
    taught(A, B, method="icarl", policy="class-balanced").save(folder / "icarl")
    return folder


@pytest.fixture
def own(sound, tmp_path):
    return Path(shutil.copytree(sound / "mlp", tmp_path / "mlp"))


@pytest.fixture
def cnn(sound, tmp_path):
    return Path(shutil.copytree(sound / "cnn", tmp_path / "cnn"))


@contextmanager
def little_memory() -> Iterator[None]:
    """No more than a gigabyte beside what is taken already, where the system can say how much that is."""
    if not STATM.exists():
        yield
        return
    pages = int(STATM.read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def loads(folder: Path, model: Any = mlp) -> bool:
    """Whether it can be loaded. What cannot is refused in one line, and before anything large is made."""
    return _loaded(folder, model) is not None


def _loaded(folder: Path, model: Any = mlp) -> Learner | None:
    said = ""
    with little_memory():
        try:
            return Learner.load(folder, model=model)
        except TfcsrError as error:
            said = str(error)
    _require_one_line(said)
    return None


def _require_one_line(said: str) -> None:
    assert said.isprintable(), said
    assert len(said) < 3000
    assert "allocate" not in said, said
    assert "out of memory" not in said, said


def unusable(learner: Learner | None) -> list[str]:
    """What cannot be asked of a learner that was loaded without a word: each question is answered or refused."""
    questions: dict[str, Callable[[], Any]] = {
        "repr": lambda: repr(learner),
        "history": lambda: learner.history,
        "predict": lambda: learner.predict(np.zeros((2, 1, 8, 8), np.uint8)),
        "recall": lambda: learner.recall(),
        "evaluate": lambda: learner.evaluate(np.zeros((2, 1, 8, 8), np.uint8), ["m", "?"]),
    }
    found = []
    for name, ask in questions.items() if learner is not None else ():
        try:
            ask()
        except TfcsrError:
            continue
        except Exception as error:
            found.append(f"{name}: {type(error).__name__}: {str(error)[:80]}")
    return found


# The files


def resealed(folder: Path, change: Callable[[Any], Any], name: str = "checkpoint") -> None:
    """Changes what a checkpoint says, and puts its checksum right."""
    path = next((folder / name).glob("*.json"))
    whole = json.loads(path.read_text())
    content = change(whole["content"])
    whole["content"] = whole["content"] if content is None else content
    whole["sha256"] = hashlib.sha256(json.dumps(whole["content"]).encode()).hexdigest()
    path.write_text(json.dumps(whole))


def restated(folder: Path, change: Callable[[Any], Any], name: str = "checkpoint") -> None:
    """Changes the state that a checkpoint holds."""
    there = Checkpoints(folder / name, json.loads((folder / "spec.json").read_text())["id"], kept=1)
    found = there.load()
    assert found is not None
    change(found.state)
    there.save(found.number + 1, found.state, found.events)


def redescribed(folder: Path, **values: Any) -> None:
    about = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps(about | values))


def respecified(folder: Path, **values: Any) -> None:
    about = json.loads((folder / "spec.json").read_text())
    redescribed(folder, spec=about["spec"] | values)


def test_the_sound_ones_are_loaded(sound):
    for name, model in (("mlp", mlp), ("icarl", mlp), ("cnn", None)):
        learner = _loaded(sound / name, model)
        assert learner is not None
        assert unusable(learner) == []


def test_each_file_in_turn_is_gone_cut_short_or_something_else(sound, tmp_path):
    names = [str(path.relative_to(sound / "mlp")) for path in sorted((sound / "mlp").rglob("*")) if path.is_file()]
    assert len(names) == 6
    kept: dict[str, int] = dict.fromkeys(names, 0)
    for name in names:
        data = (sound / "mlp" / name).read_bytes()
        for number, other in enumerate(
            [
                None,
                b"",
                data[:1],
                data[: len(data) // 2],
                data[:-1],
                data * 2,
                b"\xff" * 99,
                b"{}",
                b"[]",
                b"null",
                b"1",
            ]
        ):
            place = Path(shutil.copytree(sound / "mlp", tmp_path / f"{number}-{name.replace('/', '-')}"))
            (place / name).unlink()
            if other is not None:
                (place / name).write_bytes(other)
            kept[name] += loads(place)
            shutil.rmtree(place)
    # What stands in the two that only others read does not matter.
    assert kept["model.safetensors"] == kept["history.json"] == 11
    assert kept["checkpoint/1.json"] == kept["checkpoint/1.safetensors"] == 0
    assert kept["history/1.jsonl"] == 1  # what stands behind the bytes that count does not


def test_each_file_in_turn_is_a_folder_or_leads_nowhere(sound, tmp_path):
    ours = ("spec.json", "checkpoint/1.json", "checkpoint/1.safetensors", "history/1.jsonl", "history")
    for name in (*ours, "model.safetensors", "checkpoint"):
        for kind in ("folder", "link"):
            place = Path(shutil.copytree(sound / "mlp", tmp_path / f"{kind}-{name.replace('/', '-')}"))
            path = place / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.mkdir() if kind == "folder" else path.symlink_to("nowhere")
            assert loads(place) or name != "model.safetensors"


def test_bytes_are_flipped(sound, tmp_path):
    rng = random.Random(3)
    place = tmp_path / "l"
    for name in ("spec.json", "checkpoint/1.json", "checkpoint/1.safetensors", "history/1.jsonl"):
        for _ in range(30):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(sound / "mlp", place)
            data = bytearray((place / name).read_bytes())
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            (place / name).write_bytes(data)
            found = loads(place)
            assert not found or name == "spec.json"


def test_the_checkpoint_of_another_learner(own, sound):
    shutil.rmtree(own / "checkpoint")
    shutil.copytree(sound / "icarl" / "checkpoint", own / "checkpoint")
    assert not loads(own)
    redescribed(own, id=json.loads((sound / "icarl" / "spec.json").read_text())["id"])
    assert not loads(own)


def test_another_id(own):
    for other in ("", "x", "../../..", "\x1b[31m", 7, None):
        redescribed(own, id=other)
        assert not loads(own)


# What it says it is

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**70,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[2J\n",
    "a\0b",
    [],
    {},
    [[]],
    [None],
    [1, 2],
    {"a": 1},
    "9" * 5000,
    ["m"] * 40,
]


def test_odd_values_in_what_it_says_of_itself(own):
    about = json.loads((own / "spec.json").read_text())
    for name in about:
        for value in ODD:
            (own / "spec.json").write_text(json.dumps(about | {name: value}))
            loads(own)
        (own / "spec.json").write_text(json.dumps({n: v for n, v in about.items() if n != name}))
        loads(own)
    for value in (*ODD, [about], {"learner": 1}):
        (own / "spec.json").write_text(json.dumps(value))
        loads(own)
    (own / "spec.json").write_text("[" * 100_000)
    assert not loads(own)
    (own / "spec.json").write_text('{"learner":' * 50_000)
    assert not loads(own)


def test_odd_values_in_its_spec(own):
    about = json.loads((own / "spec.json").read_text())
    for name in (*about["spec"], "new\x1b", "benchmark", "pretrained", "_options", "__class__"):
        for value in ODD:
            (own / "spec.json").write_text(json.dumps(about | {"spec": about["spec"] | {name: value}}))
            loads(own)


@pytest.mark.parametrize("capacity", [10**8, 21, 19, 1])
def test_a_memory_of_another_size_than_there_is(own, cnn, capacity):
    respecified(own, buffer_capacity=capacity)
    assert not loads(own)
    respecified(cnn, buffer_capacity=capacity)
    assert not loads(cnn, model=None)


@pytest.mark.parametrize("missing", ["buffer", "model", "optimizer", "generators", "method", "progress", "noted"])
def test_a_state_without_one_of_its_parts_is_not_made_up(own, missing):
    respecified(own, buffer_capacity=10**8)
    restated(own, lambda state: (state if missing in state else state["loop"]).pop(missing))
    assert not loads(own)
    respecified(own, buffer_capacity=20)
    assert not loads(own)


def test_a_memory_that_is_none_is_not_taken_for_a_large_one(own):
    respecified(own, buffer_capacity=10**8)
    restated(own, lambda state: state["loop"].update(buffer=None))
    assert not loads(own)


def test_a_large_memory_is_not_made_for_a_learner_that_has_learned_nothing(tmp_path):
    make().save(tmp_path / "l")
    respecified(tmp_path / "l", buffer_capacity=10**8)
    assert loads(tmp_path / "l")


def _strided(content: Any, name: str, shape: list[int]) -> None:
    """Lets a tensor of one number claim to be of any size."""
    text = json.dumps(content["state"])
    entry = {"tensor": name, "shape": shape, "stride": [0] * len(shape)}
    assert json.dumps({"tensor": name}) in text
    content["state"] = json.loads(text.replace(json.dumps({"tensor": name}), json.dumps(entry)))


def test_a_tensor_that_is_larger_than_its_numbers(own):
    respecified(own, buffer_capacity=10**8)
    resealed(own, lambda content: _strided(content, "loop/buffer/x", [10**8, 1, 8, 8]))
    assert not loads(own)


@pytest.mark.parametrize(
    "name", ["loop/buffer/x", "loop/buffer/y", "mean", "loop/model/1.weight", "loop/generators/order"]
)
def test_a_tensor_that_claims_the_world(sound, tmp_path, name):
    for i, shape in enumerate(([1 << 40], [1 << 62, 2], [-1], [0], [1, 8, 8], [2**70], ["x"], [1] * 100)):
        place = Path(shutil.copytree(sound / "mlp", tmp_path / f"{i}"))
        resealed(place, lambda content, s=shape: _strided(content, name, s))
        loads(place)


def test_networks_that_are_larger_than_what_is_there(cnn):
    shape = [1, 40_000, 40_000]
    restated(cnn, lambda state: state["built"].update(shape=shape))
    assert not loads(cnn, model=None)


@pytest.mark.parametrize(
    "shape",
    [[0, 8, 8], [0, 40_000, 40_000], [1, 0, 0], [-1, 8, 8], [8.5], ["x"], [], [1] * 90, [2**70], 3, None, "abc"],
)
def test_shapes_that_are_none(cnn, shape):
    def change(state: Any) -> None:
        state["built"]["shape"] = shape
        if isinstance(shape, list) and 0 in shape:
            state["loop"]["buffer"]["x"] = torch.zeros(20, *shape, dtype=torch.uint8)

    restated(cnn, change)
    assert not loads(cnn, model=None)


def test_networks_whose_weights_claim_the_world(cnn):
    def change(content: Any) -> None:
        _strided(content, "loop/model/7.weight", [128, 64 * 10_000 * 10_000])
        _strided(content, "loop/buffer/x", [20, 1, 40_000, 40_000])
        text = json.dumps(content["state"])
        content["state"] = json.loads(text.replace('["shape", [1, 8, 8]]', '["shape", [1, 40000, 40000]]'))

    resealed(cnn, change)
    assert not loads(cnn, model=None)


def test_a_million_labels(cnn):
    restated(cnn, lambda state: state.update(labels=list(range(200_000))))
    assert not loads(cnn, model=None)


@pytest.mark.parametrize("model", ["resnet18", "timm:vit_giant", "timm:", "os", "../evil", "own", "OWN", "", "cnn\0"])
def test_another_network_than_the_one_that_is_there(cnn, model):
    respecified(cnn, model=model)
    assert not loads(cnn, model=None)


# What it has kept


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a state; of long lists the first."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from paths(entry, (*path, key))
    elif isinstance(value, list | tuple):
        for i, entry in enumerate(value[:1]):
            yield from paths(entry, (*path, i))


def placed(state: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        if isinstance(state[key], tuple):
            state[key] = list(state[key])
        state = state[key]
    state[path[-1]] = value


STRANGE: list[Any] = [
    None,
    -1,
    2**70,
    0.5,
    float("nan"),
    "x\x1b",
    [],
    {"a": 1},
    [None],
    torch.zeros(0),
    torch.zeros(2, 3, 4, dtype=torch.int64),
    torch.full((20, 1, 8, 8), float("nan")),
]


@pytest.fixture(scope="module")
def strange(sound, tmp_path_factory):
    """What came of odd values in a state: how many were refused of how many, what load said that it must not say, and
    what could not be asked of what was loaded.
    """
    refused, tried, loading, using = 0, 0, [], []
    rng = random.Random(4)
    for name in ("mlp", "icarl"):
        place = Path(shutil.copytree(sound / name, tmp_path_factory.mktemp("strange") / "l"))
        there = Checkpoints(place / "checkpoint", json.loads((place / "spec.json").read_text())["id"], kept=1)
        state = there.load().state
        for path in paths(state):
            if name == "icarl" and path[:2] not in {("loop", "buffer"), ("loop", "method")}:
                continue
            for value in rng.sample(STRANGE, 3):
                tried += 1
                changed = copy.deepcopy(state)
                placed(changed, path, value)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("os.fsync", lambda handle: None)  # there is nothing to lose
                    there.save(1, changed, 0)
                where = f"{'/'.join(map(str, path))} = {value.shape if isinstance(value, torch.Tensor) else value}"
                try:
                    learner = _loaded(place)
                except Exception as error:
                    loading.append(f"{where}: {type(error).__name__}: {error}")
                    continue
                refused += learner is None
                using += [f"{where}: {problem}" for problem in unusable(learner)]
    return refused, tried, loading, using


def test_odd_values_in_the_state_are_refused_in_one_line(strange):
    refused, tried, loading, _ = strange
    assert loading == []
    assert tried > 300
    assert refused > tried / 2


def test_what_passes_can_be_used(strange):
    assert strange[3] == []


@pytest.mark.parametrize(
    "labels",
    [
        [],
        ["n", "m", "a"],
        ["n", "m", "a", "b", "c"],
        ["n", "m", "a", "a"],
        ["n", "m", "a", None],
        ["n", "m", "a", []],
        ["n", "m", "a", {"tuple": [{"x": 1}]}],
        ["n", "m", "a", {"tuple": "abc"}],
        ["n", "m", "a", {"dict": []}],
        ["n", "m", 1, True],
        {"n": 0},
        "nmab",
        [["n"], ["m"], ["a"], ["b"]],
    ],
)
def test_labels_that_are_none(own, labels):
    restated(own, lambda state: state.update(labels=labels))
    assert not loads(own)


@pytest.mark.parametrize(
    "labels", [["n", "m", "a", float("nan")], ["\x1b[31m", "\n", "", "\udc80"], [1, 2.5, False, "x"]]
)
def test_labels_that_are_odd_may_stay(own, labels):
    restated(own, lambda state: state.update(labels=labels))
    loads(own)


def test_nested_deeply(own):
    path = next((own / "checkpoint").glob("*.json"))
    text = path.read_text()
    for deep in (
        '{"tuple":[' * 3000 + "]}" * 3000,
        "[" * 3000 + "]" * 3000,
        '{"dict":[["a",' * 3000 + "1" + "]]}" * 3000,
    ):
        start = text.index('"content": ') + len('"content": ')
        content = text[start:-1].replace('"labels"', f'"deep", {deep}], ["labels"')
        seal = hashlib.sha256(content.encode()).hexdigest()
        path.write_text(f'{{"version": 2, "sha256": "{seal}", "content": {content}}}')
        assert not loads(own)
    path.write_text("[" * 10**6)
    assert not loads(own)


def test_what_a_method_keeps_cannot_take_the_place_of_what_it_is(own):
    for name in ("predict", "learner", "spec", "loss", "__class__", "__dict__", "state_dict", "end_epoch"):
        place = own.with_name(name)
        shutil.copytree(own, place)
        restated(place, lambda state, n=name: state["loop"]["method"].update({n: "x"}))
        assert unusable(_loaded(place)) == [], name


def test_nor_can_what_a_policy_keeps(own):
    for name in ("keep", "fields", "forget", "__class__", "state_dict"):
        place = own.with_name(name)
        shutil.copytree(own, place)
        restated(place, lambda state, n=name: state["loop"]["buffer"]["policy"].update({n: "x"}))
        learner = _loaded(place)
        if learner is not None:
            with contextlib.suppress(TfcsrError):
                learner.learn(*images(C))


def test_numbers_in_the_memory_that_are_no_classes(own):
    for value in (7, -5, 2**62):

        def change(state: Any, v: int = value) -> None:
            state["loop"]["buffer"]["y"][0] = v
            if v < 0:
                state["loop"]["buffer"]["size"] -= 1

        place = own.with_name(f"{value}")
        shutil.copytree(own, place)
        restated(place, change)
        assert unusable(_loaded(place)) == [], value


def test_a_memory_with_a_gap(own):
    """An empty slot before one that is filled."""

    def change(state: Any) -> None:
        state["loop"]["buffer"]["y"][3] = -1
        state["loop"]["buffer"]["size"] -= 1

    restated(own, change)
    assert unusable(_loaded(own)) == []


@pytest.mark.parametrize(
    "dtype", ["save", "nn", "complex64", "float8_e4m3fn", "__name__", "qint8", "bits8", "", 3, None]
)
def test_types_that_are_none(own, dtype):
    restated(own, lambda state: state["built"].update(dtype=dtype))
    assert not loads(own)


# Nothing is run


def test_nothing_is_fetched_or_imported(cnn, monkeypatch):
    fetched, imported = [], []
    real = builtins.__import__

    def importing(name: str, *more: Any, **others: Any) -> Any:
        imported.append(name)
        return real(name, *more, **others)

    def connect(self: Any, address: Any) -> None:
        fetched.append(address)
        raise OSError

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(builtins, "__import__", importing)
    for name in ("model", "transform", "method", "policy", "schedule"):
        place = cnn.with_name(name)
        shutil.copytree(cnn, place)
        if name in ("model", "transform"):
            redescribed(place, **{name: "antigravity.fly"})
        respecified(place, **{"method": "tfcsr", name: "antigravity"})
        assert not loads(place, model=None)
    assert fetched == []
    assert not {"antigravity", "antigravity.fly"} & {*imported, *sys.modules}


def test_pretrained_weights_are_not_fetched_for_a_folders_sake(cnn, monkeypatch):
    asked: list[dict[str, Any]] = []
    fake = types.ModuleType("timm")

    def create_model(name: str, **wanted: Any) -> torch.nn.Module:
        asked.append({"name": name, **wanted})
        return mlp((1, 8, 8), wanted["num_classes"])

    fake.is_model = lambda name: name == "known"  # type: ignore[attr-defined]
    fake.list_models = lambda: ["known"]  # type: ignore[attr-defined]
    fake.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", fake)
    for name in ("hf-hub:evil/model", "../known", "https://evil", "other"):
        respecified(cnn, model=f"timm:{name}", pretrained=True)
        assert not loads(cnn, model=None)
    assert asked == []
    respecified(cnn, model="timm:known", pretrained=True)
    loads(cnn, model=None)
    assert asked
    assert not any(wanted["pretrained"] for wanted in asked)


def test_a_pretrained_learner_is_loaded_without_a_download(tmp_path, monkeypatch):
    asked: list[bool] = []
    fake = types.ModuleType("timm")

    def create_model(name: str, **wanted: Any) -> torch.nn.Module:
        asked.append(wanted["pretrained"])
        return mlp((1, 8, 8), wanted["num_classes"])

    fake.is_model = lambda name: True  # type: ignore[attr-defined]
    fake.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", fake)
    learner = taught(A, model="timm:known", pretrained=True)
    assert asked == [True]
    learner.save(tmp_path / "l")
    found = Learner.load(tmp_path / "l")
    assert not any(asked[1:])
    x, _ = images(A)
    np.testing.assert_array_equal(found.predict_proba(x), learner.predict_proba(x))
    found.learn(*images(B))
    found.save(tmp_path / "l")
    assert Learner.load(tmp_path / "l").classes == found.classes
    assert not any(asked[1:])


# The progress of a learn


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A learner whose learn was interrupted."""
    folder = tmp_path_factory.mktemp("stopped") / "l"
    learner = taught(A, checkpoint_every=1)
    learner.save(folder)

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(B), listeners=[interrupt])
    return folder


def _goes_on(place: Path, resume: bool | None = True) -> bool:
    learner = Learner.load(place, model=mlp)
    said = ""
    with little_memory():
        try:
            learner.learn(*images(B), resume=resume)
        except TfcsrError as error:
            said = str(error)
    _require_one_line(said)
    return not said


def test_odd_values_in_the_progress_of_a_learn(stopped, tmp_path):
    problems = []
    for name in ("pending", "loop", "labels", "built", "mean", "past", "instalments", "frozen"):
        for number, value in enumerate((None, 3, {"data": 1}, [])):
            place = Path(shutil.copytree(stopped, tmp_path / f"{name}-{number}"))
            restated(place, lambda state, n=name, v=value: state.update({n: v}), "learning")
            for resume in (True, None):
                try:
                    assert not _goes_on(place, resume) or resume
                except Exception as error:
                    problems.append(f"{name} = {value}, resume={resume}: {type(error).__name__}: {error}")
    assert problems == []


def test_what_is_asked_of_damaged_progress_is_told(stopped, tmp_path):
    place = Path(shutil.copytree(stopped, tmp_path / "l"))
    assert _goes_on(Path(shutil.copytree(stopped, tmp_path / "fine")))
    restated(place, lambda state: state["loop"]["model"].clear(), "learning")
    assert not _goes_on(place)
    # As it was before, and it may start over.
    learner = Learner.load(place, model=mlp)
    learner.learn(*images(B), resume=False)
    assert len(learner.classes) == 4


# Anything


def test_anything(sound, tmp_path):
    """A few hundred changes at random; `tests.nightly.fuzz` has the same for the files of runs."""
    rng = random.Random(11)
    place = Path(shutil.copytree(sound / "mlp", tmp_path / "l"))
    manifest, tensors, about = (
        place / "checkpoint" / "1.json",
        place / "checkpoint" / "1.safetensors",
        place / "spec.json",
    )
    before = {path: path.read_bytes() for path in (manifest, tensors, about)}
    whole, described = json.loads(before[manifest]), json.loads(before[about])
    header = int.from_bytes(before[tensors][:8], "little") + 8
    refused, problems = 0, []
    for number in range(400):
        for path, data in before.items():
            path.write_bytes(data)
        choice = rng.random()
        content, packed = whole["content"], before[tensors]
        if choice < 0.25:
            changed = mangled(described, rng)
            about.write_bytes(
                json.dumps(changed).encode() if rng.random() < 0.7 else damage(before[about], rng, JSON_PIECES)
            )
        elif choice < 0.45:
            packed = damage(packed[: header + 64], rng, BINARY_PIECES + JSON_PIECES) + packed[header + 64 :]
        else:
            content = mangled(content, rng)
        if choice >= 0.25:
            if isinstance(content, dict) and isinstance(content.get("tensors"), dict):
                seal = {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
                content = {**content, "tensors": content["tensors"] | seal}
            seal = hashlib.sha256(json.dumps(content).encode()).hexdigest()
            manifest.write_text(json.dumps(whole | {"content": content, "sha256": seal}))
            tensors.write_bytes(packed)
        try:
            refused += not loads(place)
        except Exception as error:
            problems.append(f"{number}: {type(error).__name__}: {error}")
    assert problems == []
    assert refused > 200


class Kept:
    """The network of a run, in its file."""

    def __init__(self, folder: Path) -> None:
        run(make_spec(method="tfcsr", epochs=1, out=str(folder)))
        self.file = folder / "model.safetensors"
        self.sound = self.file.read_bytes()
        self.size = int.from_bytes(self.sound[:8], "little")
        self.header = json.loads(self.sound[8 : 8 + self.size])
        (self.key,) = self.header["__metadata__"]
        self.about = json.loads(self.header["__metadata__"][self.key])

    def with_about(self, about: Any) -> bytes:
        header = json.dumps(self.header | {"__metadata__": {self.key: json.dumps(about)}}).encode()
        header += b" " * (-len(header) % 8)
        return len(header).to_bytes(8, "little") + header + self.sound[8 + self.size :]


def test_the_network_of_a_run_may_not_bring_a_memory_that_is_not_there(tmp_path):
    kept = Kept(tmp_path / "run")
    spec = kept.about["spec"] | {"buffer_capacity": 10**8}
    beside = [entry for entry in kept.about["beside"]["dict"] if entry[0] != "buffer"]
    for about in (kept.about | {"spec": spec}, kept.about | {"spec": spec, "beside": {"dict": beside}}):
        kept.file.write_bytes(kept.with_about(about))
        assert not loads(tmp_path / "run", model=None)


def test_the_network_of_a_run_is_read_with_the_same_care(tmp_path):
    kept = Kept(tmp_path / "run")
    assert Learner.load(tmp_path / "run").classes
    rng = random.Random(5)
    refused, problems = 0, []
    for number in range(150):
        if number % 3 == 0:
            start = damage(kept.sound[: kept.size + 64], rng, BINARY_PIECES + JSON_PIECES)
            kept.file.write_bytes(start + kept.sound[kept.size + 64 :])
        else:
            kept.file.write_bytes(kept.with_about(mangled(kept.about, rng)))
        try:
            refused += not loads(tmp_path / "run", model=None)
        except Exception as error:
            problems.append(f"{number}: {type(error).__name__}: {error}")
    assert problems == []
    assert refused > 50
