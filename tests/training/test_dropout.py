"""What a model draws itself comes from the run's own generators; what is frozen in it stays frozen."""

import copy

import pytest
import torch
from torch import nn

from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.models.predict import mode
from tfcsr.testing import make_spec, make_training, outcome, trained
from tfcsr.training.loop import build_model

FIELDS = {"model": "tiny-dropout", "epochs": 2, "max_epochs": 2, "lr": 0.01}


def weights(**fields):
    return trained(**FIELDS, **fields).weights_sha256()


def test_dropout_is_at_work():
    """Else the tests below would say nothing."""
    without = make_training(method="er", **FIELDS)
    without.model[3].p = 0.0
    without.run()
    assert without.weights_sha256() != weights(method="er")


@pytest.mark.parametrize("method", METHODS.names())
def test_torchs_generator_is_neither_used_nor_moved(method):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = outcome(trained(method=method, **FIELDS))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert outcome(trained(method=method, **FIELDS)) == one


def test_torchs_generator_is_as_it_was_when_a_step_fails():
    training = make_training(method="er", **FIELDS)
    torch.manual_seed(5)
    before = torch.get_rng_state()

    def fail(batch, logits):
        raise RuntimeError("in the middle of a step")

    training.method.loss = fail
    with pytest.raises(RuntimeError, match="middle"):
        training.run()
    assert torch.equal(torch.get_rng_state(), before)


def test_another_seed_drops_others():
    def dropped(seed):
        training = make_training(method="finetune", seed=seed, **FIELDS)
        with training.learner.generators.dropout():
            return nn.functional.dropout(torch.ones(200), 0.5).tolist()

    assert dropped(0) == dropped(0) != dropped(1)


def test_no_two_steps_drop_the_same():
    training = make_training(method="finetune", model="tiny-dropout", epochs=1)
    dropped = []

    def keep(module, inputs, output):
        if module.training:
            dropped.append(tuple((output == 0).flatten().tolist()))

    training.model[3].register_forward_pre_hook(lambda module, inputs: (torch.ones_like(inputs[0]),))
    training.model[3].register_forward_hook(keep)
    training.run()
    assert len(dropped) == training.optimizer_steps == 15
    assert len(set(dropped)) == 15


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_tfcsr_equals_er(augment):
    assert weights(method="tfcsr", augment=augment) == weights(method="er", augment=augment)


@pytest.mark.parametrize("probe_mode", ["eval", "train", "none"])
def test_a_probe_leaves_the_weights_as_without(probe_mode):
    probed = trained(method="tfcsr", probe_mode=probe_mode, **FIELDS)
    assert (len(probed.learner.probes) > 0) is (probe_mode != "none")
    assert probed.weights_sha256() == weights(method="er")


def test_a_probe_in_train_mode_drops_and_one_in_eval_mode_does_not():
    training = make_training(method="tfcsr", **FIELDS)
    x = training.tasks.test.x
    asked, asked_again = (training.learner.logits(x) for _ in range(2))
    assert torch.equal(asked, asked_again)
    assert not torch.equal(training.learner.logits(x, train_mode=True), asked)


@pytest.mark.parametrize("method", METHODS.names())
def test_a_stopped_run_goes_on_to_the_same_bits(method):
    fields = FIELDS | {"method": method, "mastery_threshold": 100, "lr": 1e-3}
    state = {}
    whole = make_training(**fields)

    def keep():
        if (whole.task_number, whole.epoch) == (2, 1):
            state.update(copy.deepcopy(whole.state_dict()))

    whole.run(keep)
    torch.manual_seed(99)
    resumed = make_training(**fields)
    resumed.load_state_dict(state)
    resumed.run()
    assert outcome(resumed) == outcome(whole)


def test_a_state_of_the_version_without_the_generator_loads():
    training = make_training(method="er", **FIELDS)
    state = training.learner.generators.state_dict()
    assert state.pop("dropout").dtype == torch.uint8
    make_training(method="er", **FIELDS).learner.generators.load_state_dict(state)
    del state["replay"]
    with pytest.raises(KeyError):
        training.learner.generators.load_state_dict(state)


@pytest.mark.parametrize("model", ["tiny-dropout", "tiny-bn", "cnn"])
def test_a_model_is_built_from_the_seed_and_torchs_generator_left_as_it_was(model):
    built = []
    for number in (1, 2):
        torch.manual_seed(number)
        before = torch.get_rng_state()
        built.append(build_model(make_spec(method="er", model=model), (1, 4, 4), 6).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(tensor, built[1][name]) for name, tensor in built[0].items())
    other = build_model(make_spec(method="er", model=model, seed=1), (1, 4, 4), 6).state_dict()
    assert not all(torch.equal(tensor, other[name]) for name, tensor in built[0].items())


def test_a_model_that_cannot_be_built_leaves_torchs_generator_as_it_was():
    @MODELS.add("unbuilt")
    def unbuilt(shape, classes):
        nn.Linear(4, 4)
        raise RuntimeError("half built")

    before = torch.get_rng_state()
    try:
        with pytest.raises(RuntimeError, match="half built"):
            build_model(make_spec(method="er", model="unbuilt"), (1, 4, 4), 6)
    finally:
        MODELS.remove("unbuilt")
    assert torch.equal(torch.get_rng_state(), before)


# Frozen modules


@pytest.fixture
def frozen():
    """A model with two batch normalisations, the first of which is frozen when it is made."""

    @MODELS.add("frozen-bn")
    def make(shape, classes):
        model = nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.BatchNorm2d(4),
            nn.Flatten(),
            nn.Linear(4 * shape[1] * shape[2], classes),
        )
        model[1].running_mean.fill_(0.25)
        model[1].running_var.fill_(2.0)
        model[1].eval()
        return model

    yield "frozen-bn"
    MODELS.remove("frozen-bn")


def require_frozen(model):
    assert model[1].running_mean.tolist() == [0.25] * 4
    assert model[1].running_var.tolist() == [2.0] * 4
    assert model[1].num_batches_tracked.item() == 0
    assert not model[1].training


@pytest.mark.parametrize("method", METHODS.names())
def test_a_frozen_module_stays_frozen(frozen, method):
    modes = set()

    def listener(event):
        modes.add(tuple(module.training for module in training.model))
        require_frozen(training.model)

    training = make_training((listener,), method=method, model=frozen, epochs=2, max_epochs=2)
    training.run()
    assert modes == {(True, False, True, True, True, True)}
    assert training.model[3].num_batches_tracked.item() == training.optimizer_steps


@pytest.mark.parametrize("probe_mode", ["eval", "train", "placebo", "none"])
def test_a_probe_does_not_wake_a_frozen_module(frozen, probe_mode):
    training = trained(method="tfcsr", model=frozen, epochs=3, probe_mode=probe_mode, mastery_threshold=0)
    require_frozen(training.model)
    # In train mode the statistics that are not frozen move with every probe.
    probes = len(training.learner.probes)
    moved = training.model[3].num_batches_tracked.item() - training.optimizer_steps
    assert moved == (probes if probe_mode == "train" else 0)
    assert (probes > 0) is (probe_mode != "none")


def test_a_module_frozen_whole_is_trained_all_the_same(frozen):
    """A model that is given in eval mode as a whole was merely asked something before."""
    training = make_training(method="finetune", model="tiny-bn", epochs=1)
    training.model.eval()
    training.run()
    assert training.model[1].num_batches_tracked.item() == training.optimizer_steps > 0


def test_mode_gives_every_module_its_own_back_even_after_an_error():
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(), nn.Sequential(nn.BatchNorm1d(1)))
    model[1].eval()
    model[2][0].eval()
    before = [module.training for module in model.modules()]

    def fail():
        with mode(model, False):
            assert not any(module.training for module in model.modules())
            raise RuntimeError("asked too much")

    with pytest.raises(RuntimeError, match="asked too much"):
        fail()
    assert [module.training for module in model.modules()] == before == [True, True, False, True, False]
