import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import make_spec
from tfcsr.cli import parse
from tfcsr.commands import spec_fields
from tfcsr.errors import SpecError
from tfcsr.spec import FIELDS, Parts, RunSpec, default_text, known_options, load_spec_file, nearest


def test_table_1_of_the_paper():
    mnist, cifar = RunSpec(benchmark="split-mnist"), RunSpec(benchmark="split-cifar100")
    assert (mnist.buffer_capacity, mnist.mastery_threshold) == (200, 95)
    assert (cifar.buffer_capacity, cifar.mastery_threshold) == (1000, 10)
    assert [RunSpec(benchmark=b, method="ewc").ewc_lambda for b in ("split-mnist", "split-cifar100")] == [1e4, 1e4]
    assert [RunSpec(benchmark=b, method="si").si_lambda for b in ("split-mnist", "split-cifar100")] == [100, 1]
    assert (mnist.epochs, mnist.model, mnist.tasks) == (10, "cnn", 5)
    assert (cifar.epochs, cifar.model, cifar.tasks) == (20, "resnet18", 10)
    for spec in (mnist, cifar):
        assert (spec.batch_size, spec.lr, spec.initial_gap, spec.gap_multiplier) == (64, 1e-3, 1, 1.5)
    mgp = RunSpec(benchmark="split-cifar100", method="mgp")
    assert (mgp.mastery_threshold, mgp.retention_threshold, mgp.max_epochs) == (85, 15, 50)


def test_the_protocol_sets_several_fields_at_once_and_a_given_one_wins():
    sane, paper = RunSpec(benchmark="split-cifar100"), RunSpec(benchmark="split-cifar100", protocol="paper")
    assert (sane.new_data, sane.replay_view, sane.augment) == ("all", "fresh", "crop-flip")
    assert (paper.new_data, paper.replay_view, paper.augment) == ("half", "frozen", "crop-flip")
    assert [RunSpec(method="mgp", protocol=p).gate_data for p in ("default", "paper")] == ["held-out", "test"]
    mixed = RunSpec(protocol="paper", new_data="all")
    assert (mixed.new_data, mixed.replay_view) == ("all", "frozen")


def test_a_spec_shows_what_is_in_force():
    assert None not in {v for k, v in RunSpec().to_dict().items() if k not in ("data_dir", "out")}


def test_given_defaults_are_the_same_run():
    assert RunSpec() == RunSpec(epochs=20, method="tfcsr")
    assert hash(RunSpec()) == hash(RunSpec(epochs=20))
    assert RunSpec().key() == RunSpec(epochs=20).key()


def test_where_files_lie_does_not_change_the_key_anything_else_does():
    base = make_spec()
    assert base.key() == base.replace(out="elsewhere", data_dir="there").key()
    changes = {
        "seed": 1,
        "lr": 0.5,
        "method": "er",
        "threads": 2,
        "class_order": (5, 4, 3, 2, 1, 0),
        "protocol": "paper",
    }
    keys = {base.replace(**{name: value}).key() for name, value in changes.items()} | {base.key()}
    assert len(keys) == len(changes) + 1


@pytest.mark.parametrize("spec", [RunSpec(), RunSpec(benchmark="split-cifar100", method="mgp", class_order=3)])
def test_round_trip_through_json(spec):
    assert RunSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_text_is_read_as_from_a_command_line():
    spec = RunSpec.from_dict({"epochs": "3", "lr": "1e-2", "class_order": "9,8,7,6,5,4,3,2,1,0", "initial_gap": 2})
    assert (spec.epochs, spec.lr, spec.class_order) == (3, 0.01, tuple(range(9, -1, -1)))
    assert RunSpec.from_dict({"class_order": "7"}).class_order == 7


BAD = [
    ("method", "nope", "unknown method 'nope': use one of derpp, er, er-ace, ewc, finetune"),
    ("benchmark", "nope", "split-digits"),
    ("model", "nope", "resnet18"),
    ("policy", "nope", "reservoir"),
    ("schedule", "nope", "expanding"),
    ("protocol", "nope", "default, paper"),
    ("buffer_capacity", 0, "buffer_capacity 0"),
    ("buffer_capacity", -5, "buffer_capacity -5"),
    ("batch_size", 1, "batch_size 1 is impossible: it must be between 2 and"),
    ("epochs", 0, "epochs 0"),
    ("epochs", "many", "epochs 'many' is not a whole number"),
    ("epochs", 2.5, "epochs 2.5 is not a whole number"),
    ("epochs", True, "epochs True"),
    ("lr", 0, "lr 0"),
    ("lr", float("nan"), "lr nan"),
    ("lr", "inf", "lr inf"),
    ("mastery_threshold", 100.5, "between 0 and 100"),
    ("retention_threshold", -1, "between 0 and 100"),
    ("gap_multiplier", 0.9, "gap_multiplier 0.9"),
    ("initial_gap", 0, "initial_gap 0"),
    ("seed", -1, "seed -1"),
    ("tasks", 0, "tasks 0"),
    ("tasks", 11, "tasks 11 is more than the 10 classes"),
    ("class_order", "a,b", "class_order 'a,b'"),
    ("class_order", [0, 1, 2], "does not name each class"),
    ("class_order", [0, 0, 1, 2, 3, 4, 5, 6, 7, 8], "does not name each class"),
    ("class_order", -3, "class_order -3"),
    ("class_order", 1.5, "class_order 1.5"),
    ("probe_mode", "maybe", "eval, train, placebo, none"),
    ("device", "tpu", "unknown device 'tpu'"),
    ("device", "cuda:x", "unknown device 'cuda:x'"),
    ("precision", "fp8", "fp32, tf32, bf16"),
    ("held_out", 0.9, "held_out 0.9"),
    ("new_task", "first", "current, last"),
    ("threads", -1, "threads -1"),
    ("out", 3, "out 3 is not text"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_impossible_values_are_refused_with_the_valid_ones(name, value, message):
    fields = {"method": "mgp"} if name == "retention_threshold" else {}
    with pytest.raises(SpecError) as caught:
        RunSpec.from_dict(fields | {name: value})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fields_that_do_not_go_together():
    with pytest.raises(SpecError, match="would skip every batch"):
        RunSpec(protocol="paper", buffer_capacity=31)
    assert RunSpec(buffer_capacity=31).buffer_capacity == 31
    with pytest.raises(SpecError, match="tf32 needs a GPU"):
        RunSpec(precision="tf32", device="cpu")
    with pytest.raises(SpecError, match="nothing to measure on"):
        RunSpec(method="mgp", held_out=0)


def test_unknown_fields_are_refused_with_the_nearest():
    with pytest.raises(SpecError, match=r"did you mean buffer_capacity\? the fields are benchmark, method"):
        RunSpec.from_dict({"bufer_capacity": 3})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lr-schedule", "did you mean lr_schedule?"),
        ("LR_Schedule", "did you mean lr_schedule?"),
        ("lr_scheduler", "did you mean lr_schedule?"),
        ("schedule_lr", "did you mean lr_schedule?"),
        ("batchsize", "did you mean batch_size?"),
        ("learning_rate", "did you mean lr?"),
        ("optim", "did you mean optimizer?"),
        ("n_epochs", "did you mean epochs?"),
        ("capacity", "did you mean buffer_capacity?"),
        ("threshold", "did you mean mastery_threshold?"),
        ("ewc-lambda", "did you mean ewc_lambda, an option of method ewc?"),
        ("initial_stabilty", "did you mean initial_stability, an option of schedule fsrs?"),
    ],
)
def test_what_a_misspelt_field_may_mean(name, meant):
    with pytest.raises(SpecError) as caught:
        RunSpec.from_dict({name: 3})
    assert f"unknown spec field {name!r}: {meant} the fields are benchmark" in str(caught.value)


def test_a_name_with_a_word_more_is_another_name():
    """`lr_schedule` was once answered with `schedule`."""
    assert nearest("lr_schedule", ["schedule", "lr", "epochs"]) is None
    assert nearest("lr_schedul", ["schedule", "lr_schedule"]) == "lr_schedule"
    assert nearest("batch_norm", ["batch_size", "norm_first"]) is None
    assert nearest("schedules", ["schedule", "schedule_per"]) == "schedule"
    assert nearest("gap", ["initial_gap", "second_gap"]) is None
    assert nearest("", []) is None
    assert nearest("-", ["lr"]) is nearest("n", ["lr"]) is None


@given(st.text(max_size=30), st.lists(st.sampled_from(sorted(known_options())), unique=True))
def test_a_suggestion_is_always_one_of_the_names(name, names):
    assert nearest(name, names) in (None, *names)


@given(st.sampled_from(sorted(known_options())), st.sampled_from("-_"), st.booleans())
def test_hyphens_and_capitals_do_not_count(name, hyphen, upper):
    written = name.replace("_", hyphen)
    assert nearest(written.upper() if upper else written, sorted(known_options())) == name


@given(
    st.dictionaries(
        st.sampled_from(sorted(known_options())), st.none() | st.integers() | st.floats() | st.text(max_size=20)
    )
)
def test_whatever_is_given_only_a_spec_error_comes_out(values):
    with contextlib.suppress(SpecError):
        spec = RunSpec.from_dict(values)
        assert RunSpec.from_dict(spec.to_dict()) == spec


def test_spec_files(tmp_path):
    as_json, as_toml = tmp_path / "a.json", tmp_path / "a.toml"
    as_json.write_text('{"epochs": 3}')
    as_toml.write_text("epochs = 3\nclass_order = [0, 1]\n")
    assert load_spec_file(as_json) == {"epochs": 3}
    assert load_spec_file(as_toml) == {"epochs": 3, "class_order": [0, 1]}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "not valid JSON"),
        ("a.toml", "epochs", "not valid TOML"),
        ("a.json", "[1]", "but a list"),
        ("a.json", "[" * 100_000, "not valid JSON"),
    ],
)
def test_spec_files_that_are_not(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError, match=message):
        load_spec_file(tmp_path / name)
    with pytest.raises(SpecError, match="cannot read"):
        load_spec_file(tmp_path / "absent.json")


def test_every_field_is_documented_with_its_default():
    for name, option in FIELDS.items():
        assert len(option.help) > 5, name
    assert default_text(FIELDS["epochs"]).startswith("default: 10; ")
    assert "20 with split-cifar100" in default_text(FIELDS["epochs"])
    mgp = Parts({"method": "mgp"})
    assert default_text(mgp.options["gate_data"], mgp) == "default: held-out; test with protocol paper"
    assert default_text(mgp.options["mastery_threshold"], mgp) == "default: 85"


SPECS = st.fixed_dictionaries(
    {
        "benchmark": st.sampled_from(["split-digits", "split-cifar100"]),
        "method": st.sampled_from(["er", "tfcsr", "mgp"]),
        "protocol": st.sampled_from(["default", "paper"]),
    },
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "lr": st.floats(1e-12, 1e3),
        "buffer_capacity": st.integers(64, 10**8),
        "class_order": st.one_of(st.integers(0, 2**63 - 1), st.just(tuple(range(10))[::-1])),
        "deterministic": st.booleans(),
        "held_out": st.floats(0.01, 0.5),
        "mastery_threshold": st.floats(0, 100),
        "new_data": st.sampled_from(["all", "half"]),
        "probe_mode": st.sampled_from(["eval", "none"]),
        "device": st.sampled_from(["cpu", "auto"]),
        "out": st.just("somewhere"),
    },
)


@given(SPECS)
def test_its_flags_give_the_very_same_run(fields):
    if fields["benchmark"] != "split-digits" and isinstance(fields.get("class_order"), tuple):
        del fields["class_order"]
    if fields["method"] == "er":
        fields = {name: value for name, value in fields.items() if name not in ("mastery_threshold", "probe_mode")}
    spec = RunSpec.from_dict(fields)
    options = parse(["run", *spec.flags()])
    del options["command"]
    assert RunSpec.from_dict(spec_fields(options)).key() == spec.key()


def test_only_what_differs_from_the_defaults_has_to_be_given():
    assert RunSpec(benchmark="split-digits", method="mgp").given() == {"benchmark": "split-digits", "method": "mgp"}
    paper = RunSpec(method="er", protocol="paper", seed=3, deterministic=True, out="x", data_dir="y")
    assert paper.given().keys() == {"benchmark", "method", "protocol", "seed", "deterministic"}
    assert paper.flags()[-3:] == ["--seed", "3", "--deterministic"]
    assert RunSpec(new_data="half").given()["new_data"] == "half"
    assert "new_data" not in RunSpec(protocol="paper", new_data="half").given()
