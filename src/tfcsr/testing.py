"""What every method, policy, schedule, model and benchmark must keep to, to be run on one's own:

    import pytest
    import my_plugin                      # registers the method "mine"
    from tfcsr.testing import METHOD_CHECKS

    @pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
    def test_mine(check):
        check("mine")

Each check raises an AssertionError that says what is broken. `check_method("mine")` runs them all. They train small
networks on the benchmark `tiny`, which this module registers; it needs neither pytest nor a download.
"""

import copy
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Examples, Task, TaskSequence
from tfcsr.data.views import Views
from tfcsr.errors import TfcsrError
from tfcsr.experiments.origin import load
from tfcsr.experiments.training import Training
from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.models.head import trace_head
from tfcsr.recall.schedule import SCHEDULES, Schedule
from tfcsr.spec import Parts, RunSpec, known_options
from tfcsr.training.events import Events, Listener
from tfcsr.training.loop import Loop, build_model
from tfcsr.training.step import CapturedSteps

Check = Callable[[str], None]


def striped_dataset(classes: int = 6, train: int = 40, test: int = 10, size: int = 4) -> Dataset:
    """Class k lights up pixel k, with noise: learnable, and different from class to class."""
    rng = np.random.default_rng(7)

    def split(per_class: int) -> tuple[Any, Any]:
        y = np.repeat(np.arange(classes), per_class)
        x = rng.integers(0, 100, (len(y), 1, size, size))
        x.reshape(len(y), -1)[np.arange(len(y)), y % (size * size)] = 255
        return x.astype(np.uint8), y.astype(np.int64)

    train_x, train_y = split(train)
    test_x, test_y = split(test)
    names = tuple(f"class {k}" for k in range(classes))
    return Dataset("striped", train_x, train_y, test_x, test_y, names, 255.0, (0.2,), (0.25,))


@MODELS.add("tiny-linear")
def tiny_linear(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """One linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))


@MODELS.add("tiny-bn")
def tiny_bn(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """With batch normalisation, whose statistics and modes are what a careless probe would spoil."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * shape[1] * shape[2], classes),
    )


@MODELS.add("tiny-dropout")
def tiny_dropout(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """With dropout, which draws random numbers of its own."""
    pixels = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, classes))


BENCHMARKS.add("tiny")(
    Benchmark(
        load=lambda data_dir: striped_dataset(),
        classes=6,
        tasks=3,
        defaults={"model": "tiny-bn", "epochs": 4, "batch_size": 16, "buffer_capacity": 24, "max_epochs": 6},
    )
)


def make_spec(**fields: Any) -> RunSpec:
    """A small run on one CPU thread; of the fields those that its method has."""
    fields = {"benchmark": "tiny", "device": "cpu", "precision": "fp32", "threads": 1} | fields
    applies = Parts({name: value for name, value in fields.items() if value is not None}).options
    known = known_options()
    return RunSpec.from_dict({name: v for name, v in fields.items() if name in applies or name not in known})


def make_training(listeners: Iterable[Listener] = (), **fields: Any) -> Training:
    spec = make_spec(**fields)
    return Training(spec, load(spec), listeners)


def trained(**fields: Any) -> Training:
    with one_thread():
        training = make_training(**fields)
        training.run()
        return training


@contextmanager
def one_thread() -> Iterator[None]:
    """Bits depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def outcome(training: Training) -> tuple[object, ...]:
    """All that a run has come to."""
    return (
        training.weights_sha256(),
        training.accuracy_matrix,
        training.learner.probes,
        training.epochs_per_task,
        training.optimizer_steps,
        training.samples_seen,
        training.replay_batches,
        {name: field.tolist() for name, field in training.learner.buffer.fields.items()},
    )


def same_spec_same_bits(method: str) -> None:
    assert outcome(trained(method=method)) == outcome(trained(method=method)), "two runs of one spec differ"


def another_seed_gives_another_run(method: str) -> None:
    one, other = trained(method=method), trained(method=method, seed=1)
    assert one.weights_sha256() != other.weights_sha256(), "the seed makes no difference"


def global_generators_are_neither_used_nor_moved(method: str) -> None:
    def seed(number: int) -> None:
        random.seed(number)
        np.random.seed(number)
        torch.manual_seed(number)

    fields = {"method": method, "augment": "crop-flip", "model": "tiny-dropout"}
    seed(1)
    first = outcome(trained(**fields))
    seed(2)
    before: Any = torch.get_rng_state(), np.random.get_state(), random.getstate()
    assert outcome(trained(**fields)) == first, "a global generator was used: draw from learner.generators"
    assert torch.equal(before[0], torch.get_rng_state()), "torch's global generator was moved"
    now: Any = np.random.get_state()
    assert np.array_equal(before[1][1], now[1]), "numpy's global generator was moved"
    assert before[2] == random.getstate(), "Python's global generator was moved"


def goes_on_from_its_state_to_the_same_bits(method: str) -> None:
    fields = {"method": method, "augment": "crop-flip", "max_epochs": 4, "mastery_threshold": 100, "lr": 1e-4}
    whole = outcome(trained(**fields))
    for task, epoch in ((1, 1), (2, 2), (3, 3)):
        resumed = stopped_and_resumed(task, epoch, fields)
        assert resumed is None or outcome(resumed) == whole, (
            f"resumed after task {task}, epoch {epoch}, the run ends elsewhere: is all that changes in state_dict?"
        )


class _Stop(Exception):
    """Ends a run from outside, between two epochs."""


def stopped_and_resumed(task: int, epoch: int, fields: dict[str, Any]) -> Training | None:
    """None where the method never comes to that epoch."""
    saved: dict[str, Any] = {}
    with one_thread():
        stopped = make_training(**fields)

        def stop_there() -> None:
            if (stopped.task_number, stopped.epoch) == (task, epoch):
                saved.update(copy.deepcopy(stopped.state_dict()))
                raise _Stop

        try:
            stopped.run(stop_there)
        except _Stop:
            resumed = make_training(**fields)
            resumed.load_state_dict(saved)
            resumed.run()
            return resumed
    return None


def buffer_stays_within_its_budget(method: str) -> None:
    sizes: list[tuple[int, int]] = []

    def listener(event: dict[str, Any]) -> None:
        if event["event"] == "epoch_finished":
            buffer = training.learner.buffer
            sizes.append((len(buffer), buffer.nbytes))

    with one_thread():
        training = make_training((listener,), method=method, buffer_capacity=10)
        training.run()
    capacity = 10 if training.spec.get("buffer_capacity") is not None else 0
    assert max(size for size, _ in sizes) <= capacity, "there are more examples than the buffer may hold"
    assert len({nbytes for _, nbytes in sizes}) == 1, "the buffer has grown"
    assert training.learner.buffer.x.shape[0] == capacity, "the buffer has another capacity than was asked for"


def old_tasks_are_not_looked_at_again(method: str) -> None:
    asked: list[int] = []
    task = TaskSequence.task

    def record(self: TaskSequence, number: int, *more: Any) -> Any:
        asked.append(number)
        return task(self, number, *more)

    TaskSequence.task = record  # type: ignore[assignment, method-assign]
    try:
        trained(method=method)
    finally:
        TaskSequence.task = task  # type: ignore[method-assign]
    assert METHODS.get(method).sees_all_tasks or asked == [1, 2, 3], f"the tasks asked for were {asked}"


def what_a_task_gave_is_gone_afterwards(method: str) -> None:
    """Overwriting a finished task's tensors changes nothing: whatever is kept of it is a copy in the buffer."""
    if METHODS.get(method).sees_all_tasks:
        return
    with one_thread():
        spoiled = make_training(method=method)
        end_task = spoiled._end_task

        def spoil(task: Any, found: Any) -> None:
            end_task(task, found)
            task.train.x.zero_()
            task.train.y.zero_()
            task.held_out.x.zero_()

        spoiled._end_task = spoil  # type: ignore[method-assign]
        spoiled.run()
    assert outcome(spoiled) == outcome(trained(method=method)), "the method has kept a task's own examples"


def every_module_keeps_its_mode(method: str) -> None:
    seen = set()

    def listener(event: dict[str, Any]) -> None:
        seen.add(tuple(module.training for module in training.model.modules()))

    with one_thread():
        training = make_training((listener,), method=method)
        training.model[1].eval()  # type: ignore[index]  # frozen for good
        expected = tuple(module.training for module in training.model.modules())
        training.run()
    assert seen == {expected}, "a module was left in another mode: use tfcsr.models.predict.mode"


def any_number_of_tasks(method: str) -> None:
    for tasks in (1, 4, 6):
        training = trained(method=method, tasks=tasks, epochs=1, max_epochs=1)
        assert len(training.accuracy_matrix) == len(training.epochs_per_task) == tasks, f"not with {tasks} tasks"


def evaluations_leave_no_trace(method: str) -> None:
    """What is known after some tasks is what is known when one asks after each."""
    fields: dict[str, Any] = {"method": method, "tasks": 6, "epochs": 1, "max_epochs": 2}
    always, rarely = trained(**fields), trained(**fields, evaluate_every=4)
    assert always.weights_sha256() == rarely.weights_sha256(), "predict has changed what is learned"
    asked = [row if task in (4, 6) else None for task, row in enumerate(always.accuracy_matrix, start=1)]
    assert rarely.accuracy_matrix == asked, "predict answers otherwise when it is asked less often"


class Recorder:
    """Stands in for CUDA graphs: a replay runs what was recorded again, as it was recorded."""

    def __init__(self) -> None:
        self.recorded = 0
        self.replayed = 0

    def __call__(self, record: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            record()

        return replay


def captured(recorder: Callable[..., Any], **fields: Any) -> Training:
    """A training whose steps go the way they go on a GPU."""
    training = make_training(**fields)
    training.steps = CapturedSteps(training.steps.step, sum(training.tasks.train_sizes), (1, 4, 4), recorder)
    return training


def captured_and_plain_steps_agree_to_the_bit(method: str) -> None:
    for augment in ("none", "crop-flip"):
        fields = {"method": method, "augment": augment, "batch_size": 24}  # 80 = 3 * 24 + 8: an odd last batch
        with one_thread():
            training = captured(Recorder(), **fields)
            training.run()
        assert training.weights_sha256() == trained(**fields).weights_sha256(), "a captured step does something else"


class Count(TorchDispatchMode):
    """Counts what a device would be asked to do, and how often the host would have to wait for an answer."""

    WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::unique")

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.waits = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        self.waits += func.name().startswith(self.WAITS)
        return func(*args, **(kwargs or {}))


def host_waits_once_in_a_while_not_once_a_step(method: str) -> None:
    def waits(batch_size: int) -> tuple[int, int]:
        # Nobody asks: how often a schedule does may depend on what was learned.
        fields: dict[str, Any] = {"epochs": 2, "max_epochs": 2, "mastery_threshold": 100, "batch_size": batch_size}
        fields |= {"probe_mode": "none", "lr_schedule": "constant", "warmup_epochs": 0}
        training = make_training(method=method, **fields)
        with one_thread(), Count() as count:
            training.run()
        return count.waits, training.optimizer_steps

    (few, few_steps), (many, many_steps) = waits(40), waits(4)
    assert many_steps > 2 * few_steps
    assert many == few, "a step waits for the device: no .item(), no unique(), no nonzero() in it"


def a_late_step_costs_what_the_first_did(method: str) -> None:
    """Counted, not timed: operations per step do not grow with the tasks seen."""
    training = make_training(method=method, tasks=6, max_epochs=1, epochs=1, buffer_capacity=200)
    counts: dict[int, int] = {}
    step = training.steps.step

    def counted(data: Any, row: Any) -> Tensor:
        with Count() as count:
            loss = step(data, row)
        counts.setdefault(training.task_number, count.operations)
        return loss

    training.steps.step = counted  # type: ignore[assignment]
    with one_thread():
        training.run()
    assert counts[6] <= counts[3] + 2, f"operations of a step by task: {counts}"


def learns_classes_that_come_later(method: str) -> None:
    """As in a network that is kept: its head grows for classes that nobody had announced."""
    with one_thread():
        loop, announced = _small_loop(method, 2), _small_loop(method, 4)
        for one in (loop, announced):
            _learn(one, (0, 1))
            one.next_task()
        saved: list[dict[str, Any]] = []
        try:
            _grow(loop, announced)
            _learn(loop, (2, 3), lambda: saved.append(copy.deepcopy(loop.state_dict())))
            scores = loop.method.predict(loop.learner.buffer.x.new_zeros((5, *loop.shape)))
            assert scores.shape == (5, 4), f"predict gives {scores.shape[1:]} scores for 4 classes: {FOLLOW}"
        except (RuntimeError, ValueError, LookupError, TypeError, TfcsrError) as error:
            problem = str(error).partition("\n")[0]
            raise AssertionError(f"it fails with classes that come later ({problem}): {FOLLOW}") from error
        resumed = _small_loop(method, 4)
        resumed.load_state_dict(saved[0])
        _learn(resumed, (2, 3))
    whole, again = _flat(loop.state_dict()), _flat(resumed.state_dict())
    different = [name for name in whole if name not in again or not _same(whole[name], again[name])]
    assert not different, f"a grown network's state leads elsewhere ({different[0]}): is all `grow` sets in state_dict?"


FOLLOW = "override `grow`, so that what the method keeps of each class follows"


def _small_loop(method: str, classes: int) -> Loop:
    """As a learner has one, with a head that can grow."""
    spec = make_spec(method=method, epochs=2, max_epochs=2, mastery_threshold=100)
    dataset = striped_dataset()
    views, shape = Views.of(dataset, spec.device), dataset.train_x.shape[1:]
    model = build_model(spec, shape, classes)
    head = trace_head(model, torch.from_numpy(dataset.train_x[:2]), views.normalised)
    return Loop(spec, model, views, shape, classes, Events(), head=head)


def _learn(loop: Loop, classes: tuple[int, ...], boundary: Callable[[], None] = lambda: None) -> None:
    """What is left of the task that these classes are."""
    dataset = striped_dataset()

    def examples(labels: Iterable[int], split: slice) -> Examples:
        rows = np.concatenate([np.flatnonzero(dataset.train_y == label)[split] for label in labels])
        return Examples(torch.from_numpy(dataset.train_x[rows]), torch.from_numpy(dataset.train_y[rows]))

    train, held_out = slice(8, None), slice(8)
    task = Task(
        loop.task_number, classes, examples(classes, train), examples(classes, held_out), examples(classes, held_out)
    )
    data = examples(range(max(classes) + 1), train) if loop.method.sees_all_tasks else task.train
    loop.make_room(len(data), 0)
    for _ in loop.learn(task, data, boundary):
        pass


def _grow(loop: Loop, announced: Loop) -> None:
    """Let its head grow to the classes that another knew from the beginning, and see what has become of its state."""
    before, state = copy.deepcopy(loop.model.state_dict()), _flat(loop.method.state_dict())
    loop.grow(announced.learner.classes)
    for name, weight in loop.model.state_dict().items():
        shared = weight[tuple(slice(size) for size in before[name].shape)]
        assert _same(shared, before[name]), f"{name} of the old classes has changed while the head grew: leave it alone"
    now, expected = _flat(loop.method.state_dict()), _flat(announced.method.state_dict())
    for name in state.keys() & now.keys() & expected.keys():
        was, there, wanted = (tuple(getattr(values[name], "shape", ())) for values in (state, now, expected))
        assert there == wanted or there != was, f"{name} still has shape {there}, with 4 classes {wanted}: {FOLLOW}"


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """What a state holds, by where it stands; but for what the clock says."""
    if isinstance(value, Mapping):
        entries: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        entries = enumerate(value)
    else:
        return {} if name == "progress/seconds" else {name: value}
    return {k: v for key, entry in entries for k, v in _flat(entry, f"{name}/{key}" if name else str(key)).items()}


def _same(one: Any, other: Any) -> bool:
    """To the bit: nan is nan."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(*(t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other)))


METHOD_CHECKS: tuple[Check, ...] = (
    same_spec_same_bits,
    another_seed_gives_another_run,
    global_generators_are_neither_used_nor_moved,
    goes_on_from_its_state_to_the_same_bits,
    buffer_stays_within_its_budget,
    old_tasks_are_not_looked_at_again,
    what_a_task_gave_is_gone_afterwards,
    every_module_keeps_its_mode,
    any_number_of_tasks,
    evaluations_leave_no_trace,
    captured_and_plain_steps_agree_to_the_bit,
    host_waits_once_in_a_while_not_once_a_step,
    a_late_step_costs_what_the_first_did,
    learns_classes_that_come_later,
)


def _stream(count: int, classes: int = 5) -> tuple[Tensor, Tensor]:
    """Examples that carry their own number, in two bytes."""
    number = torch.arange(count)
    x = torch.stack([number // 256, number % 256], dim=1).to(torch.uint8).reshape(count, 2, 1, 1)
    return x, number * 7 % classes


def _policy_buffer(policy: str, capacity: int) -> Buffer:
    options = {option.name: option.default for option in POLICIES.options(policy)}
    return Buffer(capacity, (2, 1, 1), POLICIES.get(policy)(**options))


def _features(x: Tensor) -> Tensor:
    return torch.cat([x.flatten(1).float() + 1, x.flatten(1).float().square()], dim=1)


def _gradients(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    given = (_features(x) / 255).softmax(dim=1)
    return given - nn.functional.one_hot(y % given.shape[1], given.shape[1]), _features(x)


def policy_keeps_within_capacity(policy: str) -> None:
    for count in (1, 7, 8, 9, 400):
        buffer = _policy_buffer(policy, 8)
        buffer.add(*_stream(count), torch.Generator().manual_seed(0), _features, _gradients)
        assert 0 < len(buffer) <= min(8, count), f"{len(buffer)} of {count} examples in a buffer of 8"
        assert bool((buffer.y[: len(buffer)] >= 0).all()), "a slot that counts as filled is empty"
        assert bool((buffer.y[len(buffer) :] == -1).all()), "a slot that counts as empty is filled"


def policy_keeps_examples_and_labels_together(policy: str) -> None:
    buffer, generator = _policy_buffer(policy, 20), torch.Generator().manual_seed(1)
    x, y = _stream(300)
    for start in range(0, 300, 60):
        before = buffer.x.clone(), buffer.y.clone()
        changes = buffer.add(x[start : start + 60], y[start : start + 60], generator, _features, _gradients)
        other = (before[0] != buffer.x).flatten(1).any(1) | (before[1] != buffer.y)
        told = torch.zeros(20, dtype=torch.bool)
        told[changes.slots] = True
        assert not bool((other & ~told)[: len(buffer)].any()), "a slot changed that was not told"
        slots, rows = changes.arrived()
        assert torch.equal(buffer.y[slots], y[start : start + 60][rows]), "what arrived is not what was told"
    pixels = buffer.x.reshape(20, 2)[: len(buffer)].long()
    number = pixels[:, 0] * 256 + pixels[:, 1]
    assert torch.equal(y[number], buffer.y[: len(buffer)]), "an example has another's label"
    assert len(number.unique()) == len(number), "an example is kept twice"


def policy_goes_on_from_its_state(policy: str) -> None:
    one, other = _policy_buffer(policy, 12), _policy_buffer(policy, 12)
    x, y = _stream(200)
    one.add(x[:100], y[:100], torch.Generator().manual_seed(2), _features, _gradients)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for buffer in (one, other):
        buffer.add(x[100:], y[100:], torch.Generator().manual_seed(3), _features, _gradients)
    for name, field in one.fields.items():
        assert torch.equal(field, other.fields[name]), f"{name} differs after a state was taken back"


POLICY_CHECKS: tuple[Check, ...] = (
    policy_keeps_within_capacity,
    policy_keeps_examples_and_labels_together,
    policy_goes_on_from_its_state,
)


def _schedule(name: str) -> Schedule:
    return SCHEDULES.get(name)(**{option.name: option.default for option in SCHEDULES.options(name)})


_HISTORIES = ([100.0] * 12, [0.0] * 12, [100.0, 0.0, 50.0] * 4, [97.0, 91.0, 89.0] * 4)


def schedule_is_a_pure_state_machine(schedule: str) -> None:
    one, other = _schedule(schedule), _schedule(schedule)
    assert one == other, "two schedules with the same options differ"
    assert SCHEDULES.get(schedule).from_dict(one.to_dict()) == one, "it does not come back from its dict"
    for recalls in _HISTORIES:
        state, again = one.start(), other.start()
        for recall in recalls:
            due = state.next_epoch
            kept = json.loads(json.dumps(again.to_dict()))
            assert other.read(kept) == again, "a state does not come back from its dict: name its class in `states`"
            state, passed = one.review(state, recall)
            again, passed_again = other.review(other.read(kept), recall)
            assert (state, passed) == (again, passed_again), "the same recalls lead elsewhere"
            assert isinstance(state.next_epoch, int), f"next_epoch {state.next_epoch!r} is no whole number"
            assert state.next_epoch > due, "the next probe is not after this one"


def schedule_may_start_at_any_epoch(schedule: str) -> None:
    one = _schedule(schedule)
    for recalls in _HISTORIES:
        state, later = one.start(), one.start(after=137)
        for recall in (*recalls, None):
            assert later.next_epoch == state.next_epoch + 137, "started 137 epochs later, it is due at other times"
            if recall is not None:
                (state, passed), (later, passed_later) = one.review(state, recall), one.review(later, recall)
                assert passed == passed_later, "what passes depends on when it started"


SCHEDULE_CHECKS: tuple[Check, ...] = (schedule_is_a_pure_state_machine, schedule_may_start_at_any_epoch)


def model_learns_in_a_run(model: str) -> None:
    fields: dict[str, Any] = {
        "benchmark": "split-digits",
        "model": model,
        "method": "er",
        "epochs": 1,
        "max_per_class": 8,
    }
    one, other = trained(**fields), trained(**fields)
    assert one.weights_sha256() == other.weights_sha256(), "one seed gives two networks: does it draw from elsewhere?"
    fresh = make_training(**fields).weights_sha256()
    assert fresh != one.weights_sha256(), "training changes nothing"


MODEL_CHECKS: tuple[Check, ...] = (model_learns_in_a_run,)


def benchmark_loads_the_same_twice(benchmark: str) -> None:
    from tfcsr.data.fingerprint import of_dataset

    spec = RunSpec(benchmark=benchmark)
    assert of_dataset(load(spec)) == of_dataset(load(spec)), "it loads other data each time"


BENCHMARK_CHECKS: tuple[Check, ...] = (benchmark_loads_the_same_twice,)


def _all(checks: tuple[Check, ...], name: str) -> None:
    for check in checks:
        check(name)


def check_method(name: str) -> None:
    _all(METHOD_CHECKS, name)


def check_policy(name: str) -> None:
    _all(POLICY_CHECKS, name)


def check_schedule(name: str) -> None:
    _all(SCHEDULE_CHECKS, name)


def check_model(name: str) -> None:
    _all(MODEL_CHECKS, name)


def check_benchmark(name: str) -> None:
    _all(BENCHMARK_CHECKS, name)
