"""The captured step, with a recorder that works on a CPU; what only a GPU can show is in test_gpu.py."""

import pytest
import torch
from tests.conftest import Anchored, make_training, trained

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.methods.distillation import by_labels, drift
from tfcsr.testing import Recorder, captured
from tfcsr.training import step
from tfcsr.training.step import WARM_UP, CapturedSteps

every_method = pytest.mark.parametrize("method", METHODS.names())


def test_a_step_is_recorded_once_for_each_shape():
    recorder = Recorder()
    training = captured(recorder, method="tfcsr-spaced", epochs=8, batch_size=24, mastery_threshold=0)
    training.run()
    # Plain batches of 24 and 8, mixed ones of 12 + 12 and 8 + 12.
    assert set(training.steps.programs) == {(24, 0), (8, 0), (12, 12), (8, 12)}
    assert recorder.recorded == 4
    assert recorder.replayed == training.optimizer_steps - 4 * WARM_UP


@every_method
def test_what_a_recording_would_touch_stays_where_it_is(method):
    def addresses():
        buffer = training.learner.buffer
        state = training.model.state_dict(), training.method.state_dict(), buffer.fields
        return [t.data_ptr() for part in state for t in flat(part)]

    seen = []
    training = make_training(
        (lambda event: seen.append((event["task"], addresses())) if event["event"] == "epoch_finished" else None,),
        method=method,
    )
    training.run()
    # A method may take something up with the second task, once; then its step is recorded anew.
    later = [found for task, found in seen if task > 1]
    assert len(later) >= 2
    assert all(found == later[0] for found in later)


class Counting(Method):
    """Counts its steps in Python, which a recording cannot."""

    steps = 0

    def after_step(self):
        self.steps += 1


@pytest.fixture
def own_methods():
    METHODS.add("anchored")(Anchored)
    METHODS.add("counting")(Counting)
    yield
    for name in ("anchored", "counting"):
        METHODS.remove(name)


def test_a_step_is_recorded_anew_when_the_method_has_other_tensors(own_methods):
    recorder = Recorder()
    training = captured(recorder, method="anchored")
    training.run()
    assert recorder.recorded == 3  # once a task
    assert training.weights_sha256() == trained(method="anchored").weights_sha256()


def test_the_schedule_of_probes_is_no_reason_to_record_anew():
    recorder = Recorder()
    training = captured(recorder, method="tfcsr", epochs=8)
    training.run()
    assert len(training.learner.probes) > 6
    assert recorder.recorded == 1


def test_a_method_that_counts_in_python_goes_step_by_step(own_methods):
    """Recording runs its Python once without taking a step: that must not show."""

    def record(step):
        counted = vars(training.method).get("steps", 0)
        training.method.steps = counted + 1
        return lambda: pytest.fail("replayed")

    training = captured(record, method="counting")
    training.run()
    assert training.method.steps == training.optimizer_steps


def flat(state):
    if isinstance(state, torch.Tensor):
        return [state]
    values = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return [tensor for value in values for tensor in flat(value)]


# torch's compiler asks what a loss is given for its gradient, and keeps to itself what it is told.
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # Batches of 12 + 12, and not the one of 8 + 12 that ends an epoch.
        ("er", {"compose": 1, "_call": 1}),
        # Batches of 24 in the first task, later of 12 + 12; and the network as it was, asked without gradients.
        ("tfcsr-distill", {"compose": 2, "in_two": 3, "by_labels": 2, "drift": 1}),
    ],
)
def test_runs_with_buffers_of_any_size_share_what_is_compiled(monkeypatch, method, expected):
    """A grid over capacities would else compile a program for each, and after eight torch goes on without."""
    programs: dict[str, int] = {}

    def compiled(function):
        def count(graph, inputs):
            programs[function.__name__] = programs.get(function.__name__, 0) + 1
            return graph.forward

        return torch.compile(function, dynamic=False, backend=count)

    made = {function: compiled(function) for function in (step.compose, step._call, step.in_two, by_labels, drift)}
    monkeypatch.setattr(step, "_has_compiler", lambda: True)
    monkeypatch.setattr(step, "_compiled", made.__getitem__)
    torch._dynamo.reset()
    fields = {"method": method, "model": "tiny-bn", "augment": "crop-flip", "batch_size": 24, "epochs": 1, "threads": 1}
    for capacity in (12, 30, 48, 96):
        training = make_training(buffer_capacity=capacity, **fields)
        training.steps = CapturedSteps(training.steps.step, 80 + capacity, (1, 4, 4), Recorder(), compiled=True)
        training.run()
        assert training.weights_sha256() == trained(buffer_capacity=capacity, **fields).weights_sha256()
    assert programs == expected


def test_while_a_device_works_its_run_leaves_the_turn_to_others(monkeypatch):
    """Twice it is not done yet; then it is."""
    answers = iter([False, False, True])

    class Event:
        def record(self):
            assert not yielded

        def query(self):
            return next(answers)

    yielded = []
    training = make_training(method="er")
    assert list(training._caught_up()) == []  # a CPU has done what it was given
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(type(training.learner), "device", torch.device("cuda"))
    for turn in training._caught_up():
        yielded.append(turn)
    assert len(yielded) == 2
    assert next(answers, None) is None
