"""The settings that parts declare, and the specs, flags and names made of them."""

import ast
import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfcsr
from tfcsr import Benchmark, Dataset
from tfcsr.cli import parse
from tfcsr.commands import spec_fields
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.options import UNSET, Option, format_value
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.registry import Registry
from tfcsr.spec import FIELDS, RunSpec, known_options

SOURCE = Path(tfcsr.__file__).parent


@pytest.mark.parametrize("name", ["", "two words", "with-dash", "1st", "_hidden", "a.b", "--flag"])
def test_an_option_is_named_like_a_flag(name):
    with pytest.raises(SpecError, match="cannot be a flag"):
        Option(name, int, 1, "help")


@pytest.mark.parametrize("kind", [list, dict, bytes, "int", None, tuple])
def test_an_option_has_a_type_that_a_command_line_can_give(kind):
    with pytest.raises(SpecError, match="use int, float, str or bool"):
        Option("name", kind, None, "help")


@pytest.mark.parametrize(
    ("kind", "default", "more", "message"),
    [
        (int, 0, {"low": 1}, "name 0 is impossible: it must be at least 1"),
        (int, 9, {"high": 8}, "name 9 is impossible: it must be at most 8"),
        (float, 1.5, {"low": 0, "high": 1}, "name 1.5 is impossible: it must be between 0 and 1"),
        (float, float("nan"), {"low": 0}, "nan is impossible"),
        (int, 1.5, {}, "is not a whole number"),
        (int, True, {}, "is not a whole number"),
        (bool, 1, {}, "is not true or false"),
        (str, 3, {}, "is not text"),
        (str, "c", {"choices": ("a", "b")}, "unknown name 'c': use one of a, b"),
    ],
)
def test_a_default_must_be_possible(kind, default, more, message):
    with pytest.raises(SpecError, match=message):
        Option("name", kind, default, "help", **more)


def test_the_values_of_the_protocols_must_be_possible():
    with pytest.raises(SpecError, match="name 7 is impossible"):
        Option("name", int, 1, "help", high=5, paper=7)
    with pytest.raises(SpecError, match="unknown name 'c'"):
        Option("name", str, "a", "help", choices=("a", "b"), before="c")


def test_values_are_read_and_checked():
    share = Option("share", float, 0.5, "help", low=0, high=1)
    assert (share.checked("0.25"), share.checked(1), type(share.checked(1))) == (0.25, 1.0, float)
    for bad in ("much", True, None, [1], -0.1, "inf", "nan"):
        with pytest.raises(SpecError, match="share"):
            share.checked(bad)
    many = Option("many", int, 3, "help", low=1)
    assert many.checked("7") == 7
    for bad in ("7.0", 7.0, True, 0):
        with pytest.raises(SpecError, match="many"):
            many.checked(bad)


def test_what_an_option_was_before_it_existed():
    assert Option("name", int, 3, "help").first == 3
    assert Option("name", int, 3, "help", before=2).first == 2
    assert Option("name", int, 3, "help", before=None).first is None
    assert repr(UNSET) == "UNSET"


def test_choices_are_listed():
    registry = Registry("thing")
    registry.add("one")(object())
    assert Option("name", str, "one", "help", choices=registry).names() == ["one"]
    assert Option("name", str, "b", "help", choices=("b", "a")).names() == ["b", "a"]
    assert Option("name", int, 1, "help").names() == []


def test_how_values_are_written():
    assert [format_value(v) for v in (0.1, 3, (1, 2), [3], "x", None)] == ["0.1", "3", "1,2", "3", "x", "None"]


def test_a_spec_has_the_options_of_its_own_method_and_no_others():
    assert "ewc_lambda" in RunSpec(method="ewc").to_dict()
    assert not {"ewc_lambda", "schedule", "alpha", "gate_data"} & RunSpec(method="er").to_dict().keys()
    assert "gap_multiplier" in RunSpec(method="tfcsr").to_dict()
    assert "gap_multiplier" not in RunSpec(method="tfcsr", schedule="fixed").to_dict()
    with pytest.raises(AttributeError, match="ewc_lambda is an option of method ewc"):
        _ = RunSpec(method="er").ewc_lambda
    assert RunSpec(method="er").get("ewc_lambda", 7) == 7


def test_an_option_of_another_part_is_refused_and_its_owner_said():
    with pytest.raises(SpecError, match="ewc_lambda is an option of method ewc, which this run does not use"):
        RunSpec(method="er", ewc_lambda=3)
    with pytest.raises(SpecError, match="gap_multiplier is an option of schedule expanding"):
        RunSpec(method="tfcsr", schedule="fixed", gap_multiplier=2)
    with pytest.raises(
        SpecError, match=r"probe_size is an option of method mgp, method tfcsr, method tfcsr-distill and 1 more"
    ):
        RunSpec(method="er", probe_size=3)


def test_a_misspelt_option_is_set_right():
    with pytest.raises(SpecError, match="unknown spec field 'ewc_lamda': did you mean ewc_lambda"):
        RunSpec(method="ewc", ewc_lamda=3)
    with pytest.raises(SpecError, match="did you mean epochs"):
        RunSpec(epoch=3)


def test_another_protocol_changes_what_it_governs_and_nobody_gave():
    default = RunSpec(method="er")
    paper = default.replace(protocol="paper")
    assert (default.new_data, default.replay_view) == ("all", "fresh")
    assert (paper.new_data, paper.replay_view) == ("half", "frozen")
    given = RunSpec(method="er", new_data="all").replace(protocol="paper")
    assert (given.new_data, given.replay_view) == ("all", "frozen")
    assert paper.replace(protocol="default") == default
    assert {"new_data", "replay_view", "held_out"} == set(paper.governed())


def test_another_method_takes_its_own_defaults_and_leaves_what_it_does_not_have():
    tf = RunSpec(method="tfcsr", schedule="fixed", initial_gap=2.0, probe_size=9, epochs=3, seed=5)
    er = tf.replace(method="er")
    assert er == RunSpec(method="er", epochs=3, seed=5)
    mgp = tf.replace(method="mgp")
    assert (mgp.probe_size, mgp.buffer_fill, mgp.held_out, mgp.mastery_threshold) == (9, "after", 0.1, 85.0)
    assert mgp.replace(method="tfcsr").buffer_fill == "before"
    assert tf.replace(method="derpp").replace(method="tfcsr").schedule == "expanding"


def test_a_given_value_stays_through_replacements():
    assert RunSpec(method="er", buffer_fill="before").replace(method="tfcsr").buffer_fill == "before"
    assert RunSpec(method="er", held_out=0.2).replace(method="mgp").held_out == 0.2
    assert RunSpec(method="er", buffer_capacity=50).replace(benchmark="split-cifar100").buffer_capacity == 50
    assert RunSpec(method="er").replace(benchmark="split-cifar100").buffer_capacity == 1000
    assert RunSpec(method="er", epochs=3).replace(epochs=None).epochs == 20


def test_a_spec_is_frozen_hashable_and_equal_by_value():
    spec = RunSpec(method="er", class_order=[9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    for name in ("epochs", "anything", "buffer_capacity"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(spec, name, 3)
    with pytest.raises(AttributeError, match="frozen"):
        del spec.epochs
    same = RunSpec(method="er", class_order="9,8,7,6,5,4,3,2,1,0", epochs=20)
    assert (spec, hash(spec), {spec: 1}[same]) == (same, hash(same), 1)
    assert spec != spec.replace(seed=1)
    assert spec != spec.to_dict()
    assert "method='er'" in repr(spec)


SPECS = {
    "derpp": {"method": "derpp", "alpha": 0.3, "beta": 1 / 3},
    "derpp, paper": {"method": "derpp", "protocol": "paper", "beta": 1.0},
    "icarl": {"method": "icarl", "policy": "class-balanced", "buffer_capacity": 70},
    "fixed": {"method": "tfcsr", "schedule": "fixed", "initial_gap": 3.0, "benchmark": "split-cifar100"},
    "mgp": {"method": "mgp", "mastery_threshold": 70.0, "gate_data": "test", "held_out": 0.0},
    "si, paper": {"method": "si", "protocol": "paper", "si_lambda": 1e-7},
    "si, bounded": {"method": "si", "protocol": "paper", "si_lowest": "zero"},
    "flags": {"method": "er", "deterministic": True, "class_order": (3, 1, 2, 0, 4, 5, 6, 7, 8, 9), "seed": 4},
    "model": {"method": "er", "model": "resnet18", "optimizer": "sgd", "momentum": 0.5, "lr": 0.1},
}


@pytest.mark.parametrize("name", SPECS)
def test_flags_are_the_run_again(name):
    spec = RunSpec(**SPECS[name])
    options = parse(["run", *spec.flags()])
    del options["command"]
    assert RunSpec.from_dict(spec_fields(options)) == spec
    assert set(spec.given()) <= {"benchmark", "method", *SPECS[name]}


@pytest.mark.parametrize("name", SPECS)
def test_what_a_file_says_is_the_run_again(name):
    spec = RunSpec(**SPECS[name])
    written = json.loads(json.dumps(spec.to_dict()))
    assert RunSpec.from_dict(written) == RunSpec.read(written) == spec
    assert RunSpec.read(written).key() == spec.key()
    assert RunSpec.read(written).flags() == spec.flags()


def test_a_spec_that_was_read_takes_another_protocol():
    read = RunSpec.read(RunSpec(method="er", epochs=3).to_dict())
    assert read.replace(protocol="paper") == RunSpec(method="er", epochs=3, protocol="paper")


def test_an_old_spec_has_the_options_of_every_method_and_lacks_newer_ones():
    old = {"benchmark": "split-digits", "method": "si", "seed": 0, "si_lambda": 3.0, "ewc_lambda": 1e4}
    old |= {"schedule": "expanding", "gate_data": "held-out", "data_dir": None, "out": "there"}
    spec = RunSpec.read(old)
    assert (spec.si_lambda, spec.si_lowest, spec.optimizer, spec.out) == (3.0, "none", "adam", "there")
    assert not {"ewc_lambda", "schedule", "gate_data"} & spec.to_dict().keys()
    assert RunSpec.read(old | {"si_lowest": "zero"}).si_lowest == "zero"
    assert RunSpec(method="si").si_lowest == "zero"
    assert spec.key() != RunSpec(method="si", si_lambda=3.0).key()
    with pytest.raises(SpecError, match="unknown spec field 'of_a_later_version'"):
        RunSpec.read(old | {"of_a_later_version": 3})


@pytest.fixture
def added():
    """Registers under a name, and forgets it afterwards."""
    names = []

    def add(registry, name, entry):
        names.append((registry, name))
        registry.add(name)(entry)

    yield add
    for registry, name in names:
        registry.remove(name)


def test_a_new_option_changes_nobodys_key(added):
    first = Option("strength", float, 0.1, "help")
    added(METHODS, "grows", type("Grows", (Method,), {"options": (first,)}))
    default, other = RunSpec(method="grows"), RunSpec(method="grows", strength=0.3)
    written = other.to_dict()
    more = (first, Option("taste", str, "mild", "help"), Option("speed", int, 3, "help", before=1))
    added(METHODS, "grows", type("Grows", (Method,), {"options": more}))
    assert RunSpec(method="grows", speed=1).key() == default.key()
    assert RunSpec(method="grows", strength=0.3, speed=1).key() == RunSpec.read(written).key() == other.key()
    keys = {RunSpec(method="grows", **fields).key() for fields in ({}, {"taste": "hot"}, {"speed": 2}, {"speed": 1})}
    assert len(keys) == 4


def test_options_are_known_as_long_as_their_parts_are(added):
    assert "warmth" not in known_options()
    for name in ("warm", "hot"):
        added(METHODS, name, type("Warm", (Method,), {"options": (Option("warmth", float, 0.1, "help"),)}))
    assert known_options()["warmth"] == ["method hot", "method warm"]
    with pytest.raises(SpecError, match="warmth is an option of method hot, method warm, which this run does not use"):
        RunSpec(method="er", warmth=1)
    METHODS.remove("hot")
    assert known_options()["warmth"] == ["method warm"]
    METHODS.remove("warm")
    assert "warmth" not in known_options()


def load(data_dir, size=4):
    x, y = np.zeros((8, 1, size, size), np.uint8), np.arange(8) % 4
    return Dataset("zeros", x, y, x, y, tuple("abcd"), 255.0, (0.5,), (0.5,))


def test_a_benchmarks_defaults_are_checked(added):
    added(BENCHMARKS, "typo", Benchmark(load=load, classes=4, tasks=2, defaults={"epoch": 3}))
    with pytest.raises(SpecError, match=r"a default is set for an unknown spec field 'epoch': did you mean epochs\?"):
        RunSpec(benchmark="typo")
    added(BENCHMARKS, "impossible", Benchmark(load=load, classes=4, tasks=2, defaults={"epochs": 0}))
    with pytest.raises(SpecError, match="epochs 0 is impossible"):
        RunSpec(benchmark="impossible")
    # One of a method that is not chosen is no typo.
    added(BENCHMARKS, "fine", Benchmark(load=load, classes=4, tasks=2, defaults={"ewc_lambda": 3.0}))
    assert RunSpec(benchmark="fine", method="ewc").ewc_lambda == 3.0
    assert "ewc_lambda" not in RunSpec(benchmark="fine", method="er").to_dict()


def test_a_methods_defaults_are_checked(added):
    added(METHODS, "typo", type("Typo", (Method,), {"defaults": {"epoch": 3}}))
    with pytest.raises(SpecError, match=r"unknown spec field 'epoch': did you mean epochs\?"):
        RunSpec(method="typo")


def test_a_benchmark_has_options_of_its_own(added):
    options = (Option("size", int, 4, "pixels", low=1),)
    added(BENCHMARKS, "sized", Benchmark(load=load, classes=4, tasks=2, options=options))
    spec = RunSpec(benchmark="sized", method="er", size=6)
    assert spec.options_of(BENCHMARKS, "sized") == {"size": 6}
    assert BENCHMARKS.get("sized").dataset(None, size=6).train_x.shape == (8, 1, 6, 6)
    assert "size" not in spec.replace(benchmark="split-digits").to_dict()
    assert "size" in known_options()


def test_two_parts_with_one_name_for_an_option_are_refused(added):
    added(METHODS, "clashes", type("Clashes", (Method,), {"options": (Option("epochs", int, 3, "mine"),)}))
    with pytest.raises(SpecError, match="method clashes has an option epochs, a name that is taken"):
        RunSpec(method="clashes")


def test_every_option_says_what_it_is_for():
    for registry in (METHODS, BENCHMARKS, SCHEDULES):
        for name in registry.names():
            assert all(option.help for option in registry.options(name))
    assert all(option.help for option in FIELDS.values())


GENERAL = ("spec.py", "experiments", "training", "reporting", "buffer", "recall", "data", "models")


def literals(tree):
    """Every text in a file that is no docstring, with what it stands in."""
    inside = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            around = inside.get(node)
            if not isinstance(around, ast.Expr):
                yield node, around


def names_of_methods():
    """Where a part that serves all methods speaks of one by its name."""
    names = {path.stem.replace("_", "-") for path in (SOURCE / "methods").glob("[!_]*.py")}
    names -= {"base", "distance", "learner"}
    assert {"er", "tfcsr", "tfcsr-spaced", "mgp", "si", "ewc"} <= names
    files = [
        f for part in GENERAL for f in ([SOURCE / part] if part.endswith(".py") else (SOURCE / part).rglob("*.py"))
    ]
    assert len(files) > 30
    for file in files:
        where = file.relative_to(SOURCE).as_posix()
        for node, around in literals(ast.parse(file.read_text(encoding="utf-8"))):
            if node.value in names:
                yield where, node, around


def is_allowed(where, node, around):
    """The two defaults, and the program's own name: what is run, where its cache is, what a file was written by."""
    if where == "spec.py" and ast.unparse(around) == "default='tfcsr-distill'":
        return True
    if node.value != "tfcsr":
        return False
    if isinstance(around, ast.Dict):
        keys = [key.value for key in around.keys]
        return node in around.keys or keys[around.values.index(node)] == "svg.hashsalt"
    text = ast.unparse(around)
    if isinstance(around, ast.List):
        return text.startswith("['tfcsr', 'run'")
    return text == "pooch.os_cache('tfcsr')" or (where == "spec.py" and text.startswith("_field(str, 'tfcsr', "))


def test_what_serves_all_methods_names_none():
    found = [
        (where, node.lineno, node.value)
        for where, node, around in names_of_methods()
        if not is_allowed(where, node, around)
    ]
    assert found == []


def test_a_spec_of_every_method_is_made_without_torch():
    script = (
        "import sys\n"
        "from tfcsr import METHODS, RunSpec\n"
        "for name in METHODS.names():\n"
        "    for protocol in ('default', 'paper'):\n"
        "        spec = RunSpec(method=name, protocol=protocol)\n"
        "        spec.key(), spec.flags(), spec.to_dict()\n"
        "print(len(METHODS.names()), 'torch' in sys.modules)\n"
    )
    env = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    env.pop("TFCSR_PLUGINS", None)
    said = subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True).stdout
    number, torch = said.split()
    assert int(number) >= 11
    assert torch == "False"


def test_a_spec_can_be_copied_and_sent():
    spec = RunSpec(method="derpp", alpha=0.3, class_order=(9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
    for again in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert again == spec
        assert again.replace(method="er").given() == spec.replace(method="er").given()


def test_an_option_cannot_have_a_name_that_a_spec_needs():
    METHODS.add("greedy")(type("Greedy", (Method,), {"options": (Option("key", int, 3, "mine"),)}))
    try:
        with pytest.raises(SpecError, match="option key, a name that is taken"):
            RunSpec(method="greedy")
    finally:
        METHODS.remove("greedy")


@pytest.mark.parametrize(
    ("registry", "entry", "message"),
    [
        (METHODS, type("Bare", (), {}), "method 'bare' has no loss: derive it from Method"),
        (METHODS, type("Bare", (Method,), {"options": ("alpha",)}), "lists 'alpha' among its options: use Option"),
        (SCHEDULES, type("Bare", (), {}), "schedule 'bare' has no start: derive it from Schedule"),
        (BENCHMARKS, lambda data_dir: None, "benchmark 'bare' has no dataset: derive it from Benchmark"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_part_is_refused_where_it_is_registered(registry, entry, message):
    with pytest.raises(SpecError, match=message):
        registry.add("bare")(entry)
    assert "bare" not in registry.names()
