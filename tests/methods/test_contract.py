"""What every registered method must keep to; a new one is checked for free. The checks are `tfcsr.testing`'s."""

from pathlib import Path

import pytest

import tfcsr.methods
from tfcsr import testing
from tfcsr.methods import METHODS


@pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", METHODS.names())
def test_method(method, check):
    check(method)


@pytest.mark.parametrize("path", sorted(Path(tfcsr.methods.__path__[0]).glob("[!_]*.py")), ids=lambda path: path.name)
def test_a_method_is_a_short_file(path):
    name = path.stem.replace("_", "-")
    if name in METHODS.names():
        assert len(path.read_text(encoding="utf-8").splitlines()) < 100
        assert METHODS.describe(name)


# Another value for each option that a method of ours has.
OTHER_VALUES = {
    "buffer_capacity": 17,
    "policy": "herding",
    "exam_share": 0.2,
    "buffer_fill": "after",
    "new_data": "half",
    "replay_view": "frozen",
    "replay_epochs": "2",
    "replay_per_batch": 5,
    "unmixed": "same",
    "joint_epoch": "newest",
    "distill_weight": 3.0,
    "distill_scaling": "none",
    "temperature": 1.0,
    "new_classes": "balanced",
    "feature_weight": 3.0,
    "cutmix": 0.0,
    "schedule_per": "class",
    "schedule": "fixed",
    "initial_gap": 2.0,
    "gap_multiplier": 3.0,
    "mastery_threshold": 33.0,
    "retention_threshold": 77.0,
    "max_epochs": 2,
    "gate_data": "test",
    "probe_size": 5,
    "probe_mode": "placebo",
    "ewc_lambda": 3.0,
    "fisher": "exact",
    "si_lambda": 3.0,
    "si_lowest": "none",
    "si_highest": 0.0,
    "si_damping": 0.1,
    "weighting": "tasks",
    "alpha": 3.0,
    "beta": 3.0,
}
# The probe measures: it changes a run only where a gate or replay goes by it. With few examples all are asked for.
ONLY_MEASURED = {"initial_gap", "gap_multiplier", "schedule", "mastery_threshold", "retention_threshold", "probe_size"}
ONLY_MEASURED |= {"gate_data", "schedule_per"}
# What decides how an epoch without replay looks, where there is none.
NEEDS = {"unmixed": {"replay_epochs": "2"}}


@pytest.mark.parametrize("method", [name for name in METHODS.names() if METHODS.ships(name)])
def test_every_option_does_something(method):
    fields = {"method": method, "augment": "crop-flip", "epochs": 2}
    usual = testing.trained(**fields).weights_sha256()
    for name, value in OTHER_VALUES.items():
        own = testing.make_spec(**fields).options()
        if name in own and name not in ONLY_MEASURED and testing.make_spec(**fields).get(name) != value:
            more = NEEDS.get(name, {})
            before = testing.trained(**fields, **more).weights_sha256() if more else usual
            assert testing.trained(**fields, **more, **{name: value}).weights_sha256() != before, name
