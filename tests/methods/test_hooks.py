"""What a method may override: every hook is called, and what is no hook is refused before it goes unnoticed."""

from collections import Counter
from typing import ClassVar

import pytest
import torch
from torch import nn

from tfcsr.buffer.policies.base import Field
from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.methods.base import BUFFER, Method, Mix
from tfcsr.methods.er import ExperienceReplay
from tfcsr.methods.tfcsr import TaskFocusedConsolidation
from tfcsr.models import MODELS
from tfcsr.options import Option
from tfcsr.spec import RunSpec
from tfcsr.testing import make_spec, make_training, trained
from tfcsr.training.checkpoint import Checkpoints


@pytest.fixture
def register():
    """Registers a method as `mine`, until the test is over."""
    yield METHODS.add("mine")
    METHODS.remove("mine")


@pytest.fixture
def model():
    """Registers a model as `my-model`, until the test is over."""
    yield lambda make, options=(): MODELS.add("my-model", options=options)(make)
    MODELS.remove("my-model")


# Names and arguments


@pytest.mark.parametrize(
    ("name", "meant"),
    [("begin_tasks", "begin_task"), ("on_epoch_end", "end_epoch"), ("losses", "loss"), ("replay", "replays")],
)
def test_a_misspelt_hook_is_refused_with_the_nearest(name, meant):
    with pytest.raises(SpecError, match=rf"Mine\.{name} is no hook.*did you mean {meant}\?"):
        type("Mine", (ExperienceReplay,), {name: lambda self, *more: None})


def test_what_is_near_no_hook_is_refused_with_all_of_them():
    with pytest.raises(SpecError, match=r"the hooks are .*begin_task") as caught:
        type("Mine", (Method,), {"consolidate_weights": lambda self: None})
    hooks = ("epochs", "mix", "draw", "loss", "penalty", "after_step", "end_epoch", "end_task", "store", "predict")
    assert all(hook in str(caught.value) for hook in hooks)
    assert "underscore" in str(caught.value)


def test_a_static_or_class_method_is_no_hook_either():
    with pytest.raises(SpecError, match="did you mean check"):
        type("Mine", (Method,), {"checks": classmethod(lambda cls, spec: None)})
    with pytest.raises(SpecError, match="did you mean fields"):
        type("Mine", (Method,), {"field": staticmethod(lambda classes: {})})


def test_functions_with_an_underscore_constants_and_properties_are_ones_own():
    class Mine(Method):
        strength: ClassVar[float] = 3.0
        kinds = ("a", "b")

        def _helper(self):
            return 2

        @property
        def twice(self):
            return 2 * self._helper()

    assert Mine.strength == 3.0


def test_a_method_may_have_hooks_of_its_own():
    class Mine(Method):
        hooks = ("when_in_doubt",)

        def when_in_doubt(self, epoch):
            return True

    class Other(Mine):
        def when_in_doubt(self, epoch):
            return False

    assert Other.when_in_doubt(None, 1) is False
    with pytest.raises(SpecError, match="did you mean when_in_doubt"):
        type("Third", (Mine,), {"when_in_doubts": lambda self, epoch: True})
    with pytest.raises(SpecError, match=r"Third\.when_in_doubt takes"):
        type("Third", (Mine,), {"when_in_doubt": lambda self: True})


@pytest.mark.parametrize(
    ("name", "function", "called"),
    [
        ("begin_task", lambda self: None, "self, task"),
        ("loss", lambda self, logits: None, "self, batch, logits"),
        ("end_epoch", lambda self, task, epoch, more: False, "self, task, epoch"),
        ("penalty", lambda self, logits: None, "self"),
        ("end_task", lambda self, *, task: None, "self, task"),
        ("predict", lambda: None, "self, x"),
        ("fields", classmethod(lambda cls: {}), "cls, classes"),
    ],
)
def test_a_hook_with_other_arguments_is_refused(name, function, called):
    with pytest.raises(SpecError, match=rf"Mine\.{name} takes .*, but is called with \({called}\)"):
        type("Mine", (Method,), {name: function})


def test_names_of_arguments_are_free_and_there_may_be_more_with_a_default():
    class Mine(Method):
        def begin_task(self, newest):
            pass

        def end_epoch(self, *everything):
            return False

        def loss(self, batch, logits, temperature=2.0):
            return super().loss(batch, logits / temperature)

    assert issubclass(Mine, Method)


# Every hook is called


def test_every_hook_is_called(register):
    called: Counter[str] = Counter()

    @register
    class Counting(ExperienceReplay):
        options: ClassVar = (*BUFFER, *(o for o in ExperienceReplay.options if o not in BUFFER))

        @classmethod
        def check(cls, spec):
            called["check"] += 1

        @classmethod
        def fields(cls, classes):
            called["fields"] += 1
            return {"mark": Field((classes,), torch.int16)}

        def epochs(self):
            called["epochs"] += 1
            return 2

        def begin_task(self, task):
            called["begin_task"] += 1
            super().begin_task(task)

        def mix(self, task, epoch):
            called["mix"] += 1
            return Mix(new=16, replay=4, stride=16)

        def draw(self, batches, replay):
            called["draw"] += 1
            assert (batches, replay) == (5, 4)
            return torch.arange(20).reshape(5, 4) % len(self.learner.buffer)

        def loss(self, batch, logits):
            called["loss"] += 1
            assert (batch.new, batch.replayed, logits.shape) == (16, 4, (20, 6))
            # The fields of those replayed, each with its own label in them.
            assert torch.equal(batch.stored["mark"].argmax(dim=1), batch.y[16:])
            return super().loss(batch, logits)

        def penalty(self):
            called["penalty"] += 1
            return self.parameters()[0].square().sum()

        def after_step(self):
            called["after_step"] += 1
            assert self.parameters()[0].grad is not None

        def end_epoch(self, task, epoch):
            called["end_epoch"] += 1
            return task.number == 2  # which ends task 2 after one epoch

        def end_task(self, task):
            called["end_task"] += 1

        def store(self, x, y):
            called["store"] += 1
            assert len(x) == len(y) > 0
            return {"mark": torch.nn.functional.one_hot(y, 6)}

        def predict(self, x):
            called["predict"] += 1
            return super().predict(x)

        def state_dict(self):
            called["state_dict"] += 1
            return super().state_dict()

    training = make_training(method="mine")
    training.run(training.state_dict)
    assert training.epochs_per_task == [2, 1, 2]
    steps = 5 * 5
    assert called.pop("check") >= 1
    assert called.pop("epochs") >= 5
    assert called == {
        "fields": 1,
        "begin_task": 3,
        "mix": 5,
        "draw": 5,
        "loss": steps,
        "penalty": steps,
        "after_step": steps,
        "end_epoch": 5,
        "end_task": 3,
        "store": 3,
        "predict": 7,  # before the first task; and after each, for the test data and for the memory
        "state_dict": 5,
    }


def test_the_loss_is_what_is_trained_on(register):
    @register
    class Nothing(Method):
        def loss(self, batch, logits):
            return 0.0 * logits.sum()

    parameters = list(trained(method="mine", optimizer="sgd").model.parameters())
    fresh = list(make_training(method="mine").model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(parameters, fresh, strict=True))


def test_what_predict_says_decides_accuracy_and_recall(register):
    @register
    class AlwaysThree(TaskFocusedConsolidation):
        def predict(self, x):
            return torch.nn.functional.one_hot(torch.full((len(x),), 3), 6).float()

    training = trained(method="mine", class_order=(0, 1, 2, 3, 4, 5), held_out=0.25, epochs=1)
    # Class 3 is one of the two of the second task: half of that task's answers are right, and none of the others'.
    assert [list(row) for row in training.accuracy_matrix] == [[0.0, 50.0, 0.0]] * 3
    assert [list(row) for row in training.class_accuracy] == [[0.0, 0.0, 0.0, 100.0, 0.0, 0.0]] * 3
    assert training.held_out_accuracy == pytest.approx(100 / 6)
    last = training.learner.probes[-1]
    assert last["recall"] == pytest.approx(100 * float((training.learner.buffer.y == 3).float().mean()))
    assert last["recall"] > 0


def test_predict_must_give_a_score_for_each_class(register):
    @register
    class TwoScores(Method):
        def predict(self, x):
            return torch.zeros(len(x), 2)

    with pytest.raises(SpecError, match="one for each of 6 classes"):
        trained(method="mine")


# What a method sets on itself


def test_a_subclass_of_tfcsr_keeps_its_own_attributes_when_it_is_resumed(register, tmp_path):
    @register
    class Remembering(TaskFocusedConsolidation):
        def __init__(self, learner):
            super().__init__(learner)
            self.strength = 1.0
            self.history: list[tuple[int, int]] = []
            self.names = {"first": None}
            self.average = torch.zeros(3)
            self.twin = None

        def begin_task(self, task):
            super().begin_task(task)
            self.names[f"task {task.number}"] = list(task.classes)
            self.twin = self.learner.frozen_copy()

        def end_epoch(self, task, epoch):
            self.strength *= 0.5
            self.history.append((task.number, epoch))
            self.average = self.average + epoch
            return super().end_epoch(task, epoch)

        def penalty(self):
            return self.strength * self.parameters()[0].square().sum()

    fields = {"method": "mine", "mastery_threshold": 0}
    whole = make_training(**fields)
    checkpoints = Checkpoints(tmp_path / "checkpoints", whole.spec.key())

    def save():
        if (whole.task_number, whole.epoch) == (2, 3):
            checkpoints.save(1, whole.state_dict(), 0)

    whole.run(save)
    state = checkpoints.load().state
    assert {"strength", "history", "names", "average", "twin", "schedule", "due", "among"} == set(state["method"])
    resumed = make_training(**fields)
    resumed.load_state_dict(state)
    method = resumed.method
    assert method.strength == 0.5**7
    assert method.history == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3)]
    assert set(method.names) == {"first", "task 1", "task 2"}
    assert method.average.tolist() == [16.0] * 3  # 1 + 2 + 3 + 4 + 1 + 2 + 3
    assert isinstance(method.twin, nn.Module)
    assert not method.twin.training
    # Passed after epochs 1 and 3: the gap has grown to 2.25, and 3 + 2 is the next.
    assert (method.agenda.memory.gap, method.agenda.memory.next_epoch) == (2.25, 5)
    resumed.run()
    assert resumed.weights_sha256() == whole.weights_sha256()
    assert resumed.learner.probes == whole.learner.probes
    assert resumed.method.history == whole.method.history


# Options


def test_an_option_of_ones_own_is_a_field_of_the_spec_and_decides_its_key(register):
    @register
    class Mine(Method):
        options: ClassVar = (Option("my_strength", float, 0.5, "how much", low=0),)

        def penalty(self):
            return self.spec.my_strength * self.parameters()[0].square().sum()

    usual, stronger = make_spec(method="mine"), make_spec(method="mine", my_strength=2)
    assert (usual.my_strength, stronger.my_strength) == (0.5, 2.0)
    assert usual.key() == make_spec(method="mine", my_strength=0.5).key() != stronger.key()
    assert stronger.given()["my_strength"] == 2.0
    assert RunSpec.from_dict(stronger.to_dict()) == stronger
    assert trained(method="mine").weights_sha256() != trained(method="mine", my_strength=2).weights_sha256()
    with pytest.raises(SpecError, match="at least 0"):
        make_spec(method="mine", my_strength=-1)
    with pytest.raises(SpecError, match="my_strength is an option of method mine"):
        RunSpec(benchmark="tiny", method="er", my_strength=2)


def test_a_default_of_ones_own_holds_until_it_is_given(register):
    @register
    class Mine(ExperienceReplay):
        defaults: ClassVar = {"buffer_fill": "after", "lr": 0.25}

    spec = make_spec(method="mine")
    assert (spec.buffer_fill, spec.lr, spec.buffer_capacity) == ("after", 0.25, 24)
    assert make_spec(method="mine", lr=0.5).lr == 0.5


def test_two_parts_with_an_option_of_the_same_name_are_refused(model):
    model(
        lambda shape, classes, alpha: nn.Sequential(nn.Flatten(), nn.Linear(16, classes)),
        (Option("alpha", float, 1.0, "the model's own"),),
    )
    with pytest.raises(SpecError, match="model my-model has an option alpha, a name that is taken"):
        make_spec(method="derpp", model="my-model")
    assert make_spec(method="er", model="my-model", alpha=3).alpha == 3.0


def test_an_option_called_like_a_field_is_refused(register):
    @register
    class Mine(Method):
        options: ClassVar = (Option("lr", float, 0.5, "mine"),)

    with pytest.raises(SpecError, match="method mine has an option lr, a name that is taken"):
        make_spec(method="mine")


# Of single methods


def test_si_importance_is_not_negative_but_in_the_papers_protocol():
    usual, paper = trained(method="si"), trained(method="si", protocol="paper")
    assert (usual.spec.si_lowest, paper.spec.si_lowest) == ("zero", "none")
    assert min(float(part.min()) for part in usual.method.importance) == 0.0
    assert min(float(part.min()) for part in paper.method.importance) < 0.0
    assert max(float(part.max()) for part in usual.method.importance) > 0.0
    assert usual.weights_sha256() != paper.weights_sha256()
    # By hand in the default protocol, and as every run before the option existed.
    assert trained(method="si", si_lowest="none").weights_sha256() == paper.weights_sha256()
    assert RunSpec.read({"benchmark": "tiny", "method": "si"}).si_lowest == "none"


@pytest.mark.parametrize("threshold", [0, 60, 100])
def test_spaced_replay_without_probes_replays_as_often_as_with_placebos(threshold):
    def replayed(mode):
        epochs = []

        def listener(event):
            if event["event"] == "epoch_finished" and event["replayed"]:
                epochs.append((event["task"], event["epoch"]))

        training = make_training(
            (listener,), method="tfcsr-spaced", epochs=8, probe_mode=mode, mastery_threshold=threshold
        )
        training.run()
        return epochs, len(training.learner.probes)

    # Every probe counts as passed: gaps 1, 1.5, 2.25 and 3.375, rounded.
    expected = [(task, epoch) for task in (2, 3) for epoch in (1, 3, 5, 8)]
    assert replayed("none") == (expected, 0)
    assert replayed("placebo") == (expected, 8)


class Spare(nn.Module):
    """With a parameter that no answer depends on."""

    def __init__(self, shape, classes):
        super().__init__()
        self.linear = nn.Linear(shape[0] * shape[1] * shape[2], classes)
        self.spare = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.linear(x.flatten(1))


@pytest.mark.parametrize("method", METHODS.names())
def test_a_parameter_without_gradient_stays_as_it_is(model, method):
    model(Spare)
    training = trained(method=method, model="my-model", epochs=2, max_epochs=2)
    assert training.model.spare.tolist() == [1.0, 1.0, 1.0]
    assert not torch.equal(training.model.linear.weight, make_training(model="my-model").model.linear.weight)
    if method == "ewc":
        assert [float(part.sum()) for part in training.method.curvature if part.shape == (3,)] == [0.0]
        assert float(training.method.curvature[-1].sum()) > 0


@pytest.mark.parametrize("method", METHODS.names())
def test_a_frozen_parameter_is_not_trained(model, method):
    def make(shape, classes):
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, classes))
        network[1].requires_grad_(False)
        return network

    model(make)
    fresh, training = make_training(model="my-model"), trained(method=method, model="my-model", epochs=2, max_epochs=2)
    assert torch.equal(training.model[1].weight, fresh.model[1].weight)
    assert not torch.equal(training.model[3].weight, fresh.model[3].weight)
