"""Class-, domain- and task-incremental learning, classes that come again, and tasks measured in steps."""

import copy
from dataclasses import replace

import pytest
import torch

import tfcsr
from tests.conftest import make_spec, make_training, trained
from tests.experiments.conftest import essence
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.data.benchmarks.permuted_mnist import permuted
from tfcsr.data.benchmarks.rotated_mnist import rotated
from tfcsr.errors import SpecError
from tfcsr.experiments.compare import names_of
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.training.batches import plan_epoch


@pytest.fixture
def tiny_changed():
    """The benchmark `tiny` with each task brighter by one."""
    name = "tiny-changed"
    BENCHMARKS.add(name)(replace(BENCHMARKS.get("tiny"), change=lambda x, task: x.clamp(max=240) + task))
    yield name
    BENCHMARKS.remove(name)


QUICK = {"epochs": 6, "max_epochs": 6, "mastery_threshold": 100, "lr": 3e-3, "ewc_lambda": 100}


def test_where_the_task_is_told_other_tasks_classes_are_out_of_reach():
    training = trained(method="finetune", scenario="task", model="tiny-linear", optimizer="sgd", epochs=1, momentum=0)
    begun = make_training(method="finetune", scenario="task", model="tiny-linear", optimizer="sgd", momentum=0)
    before, after = (t.model.state_dict()["1.weight"] for t in (begun, training))
    assert not torch.equal(before, after)
    # Each task moves the outputs of its own classes and no others: one step at a time they add up.
    again = make_training(
        method="finetune", scenario="task", model="tiny-linear", optimizer="sgd", epochs=1, momentum=0
    )
    task = again.tasks.task(1)
    for _ in again.learn(task, task.train):
        pass
    moved = (again.model.state_dict()["1.weight"] != before).any(dim=1)
    assert moved.nonzero().squeeze(1).tolist() == sorted(task.classes)


def test_an_answer_ranges_over_the_task_that_is_told():
    training = make_training(method="finetune", scenario="task", class_order=(0, 1, 2, 3, 4, 5))
    y = torch.tensor([0, 3, 5])
    scores = torch.tensor(
        [[0.0, 1.0, 9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 0.0, 1.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0, 1.0, 0.0]]
    )
    assert training.learner.answers(scores, y).tolist() == [1, 3, 4]
    assert (
        trained(method="finetune", scenario="task").accuracy_matrix[-1][0]
        > trained(method="finetune").accuracy_matrix[-1][0]
    )


def test_a_probe_is_told_the_task_too():
    told, not_told = (trained(method="tfcsr", scenario=s, epochs=1, lr=1e-5) for s in ("task", "class"))
    mean = lambda t: sum(p["recall"] for p in t.learner.probes) / len(t.learner.probes)  # noqa: E731
    assert mean(told) > mean(not_told) + 10


def test_in_domain_every_task_has_the_same_labels():
    training = make_training(method="finetune", scenario="domain", class_order=(3, 0, 5, 1, 2, 4))
    assert training.tasks.classes == [(0, 1)] * 3
    assert training.class_names == ("class 3/class 5/class 2", "class 0/class 1/class 4")
    plain = make_training(method="finetune", class_order=(3, 0, 5, 1, 2, 4))
    for number in (1, 2, 3):
        task, known = training.tasks.task(number), plain.tasks.task(number)
        assert torch.equal(task.train.x, known.train.x)
        first, second = known.classes
        assert task.train.y.tolist() == [{first: 0, second: 1}[label] for label in known.train.y.tolist()]
        assert set(task.test.y.tolist()) == {0, 1}


def test_results_of_domain_runs_are_read_back(tmp_path):
    result = tfcsr.run(make_spec(method="er", scenario="domain", epochs=1, out=str(tmp_path / "run")))
    assert tfcsr.Result.from_dict(result.to_dict()) == result
    assert len(result.class_accuracy[0]) == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"scenario": "some"}, "unknown scenario 'some'"),
        ({"scenario": "domain", "tasks": 4}, "tasks 4 does not cut the 6 classes"),
        ({"scenario": "domain", "tasks": 6}, "two or more"),
        ({"scenario": "task", "repeat": 0.2}, "repeat 0.2 is for scenario class"),
        ({"repeat": 1.5}, "repeat 1.5 is impossible"),
        ({"repeat": -0.1}, "repeat -0.1 is impossible"),
        ({"scenario": "class", "benchmark": "permuted-mnist"}, "scenario class is not one of permuted-mnist"),
        (
            {"scenario": "domain", "method": "icarl"},
            "icarl has no meaning in scenario domain: use it with class or task",
        ),
        ({"steps": -1}, "steps -1 is impossible"),
        ({"benchmark": "rotated-mnist", "tasks": 101}, "tasks 101 is too many for rotated-mnist"),
        ({"steps": 5, "method": "mgp"}, "mgp"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(fields, words):
    with pytest.raises(SpecError) as error:
        tfcsr.RunSpec(**{"benchmark": "tiny", **fields})
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_loss_of_ones_own_has_no_meaning_where_the_task_is_told_unless_it_says_so():
    class Own(Method):
        def loss(self, batch, logits):
            return logits.sum()

    class Knows(Own):
        scenarios = ("class", "task")

        def loss(self, batch, logits):
            return self.within(logits, batch.y).sum()

    assert Own.scenarios == ("class", "domain")
    assert Knows.scenarios == ("class", "task")


def test_a_share_of_each_task_comes_from_classes_seen_before():
    sequence = make_training(method="finetune", repeat=0.25, class_order=(0, 1, 2, 3, 4, 5)).tasks
    first, second, third = (sequence.task(number, seed=3) for number in (1, 2, 3))
    assert first.classes == (0, 1)
    new = len(first.train)
    for task, known in ((second, {0, 1}), (third, {0, 1, 2, 3})):
        again = [label for label in task.train.y.tolist() if label in known]
        assert len(again) == round(new / 3)
        assert len(task.train) == sequence.train_sizes[task.number - 1]
        assert set(again) == known
        assert task.classes[:2] == (2 * task.number - 2, 2 * task.number - 1)
        assert set(task.classes[2:]) == known
    # The same for a seed, another draw for another.
    assert torch.equal(sequence.task(3, seed=3).train.y, third.train.y)
    assert not torch.equal(sequence.task(3, seed=4).train.x, third.train.x)


@pytest.mark.parametrize("method", ["er", "er-ace", "icarl", "lwf", "tfcsr-distill"])
def test_classes_that_come_again_are_learned(method):
    training = trained(method=method, repeat=0.5, **QUICK)
    assert training.accuracy_matrix[-1][-1] > 50


def test_repetition_forgets_less():
    without, with_it = (trained(method="finetune", repeat=share, epochs=5) for share in (0.0, 0.5))
    assert sum(with_it.accuracy_matrix[-1][:2]) > sum(without.accuracy_matrix[-1][:2]) + 10


class TestSteps:
    def test_count_on_each_task(self):
        training = trained(method="er", steps=13, batch_size=16)
        assert training.optimizer_steps == 13 * 3
        assert training.epochs_per_task == [2, 2, 2]  # a pass is 10 mixed batches of 8 new examples

    def test_pass_over_the_data_without_replacement(self, monkeypatch):
        drawn = []

        def watched(*arguments, **more):
            drawn.append(plan_epoch(*arguments, **more))
            return drawn[-1]

        monkeypatch.setattr("tfcsr.training.loop.plan_epoch", watched)
        trained(method="finetune", steps=7, batch_size=16, tasks=1)
        positions = [torch.cat([b.new.flatten() for b in plan]) for plan in drawn]
        assert len(positions) == 1
        assert sorted(positions[0].tolist()) == list(range(240))
        training = trained(method="finetune", steps=7, batch_size=16)
        assert training.samples_seen == 7 * 16 * 3

    def test_as_many_as_the_epochs_have_are_the_same_run(self):
        by_epochs = trained(method="er", epochs=4)
        each = by_epochs.optimizer_steps // 3
        by_steps = trained(method="er", steps=each)
        assert by_steps.weights_sha256() == by_epochs.weights_sha256()

    def test_a_rate_that_falls_ends_near_zero(self):
        rates = []
        training = make_training(method="finetune", steps=12, batch_size=16, lr_schedule="cosine", warmup_epochs=1)
        training.method.after_step = lambda: rates.append(training.optimizer.param_groups[0]["lr"])
        training.run()
        for task in range(3):
            part = rates[12 * task : 12 * task + 12]
            assert max(part) == pytest.approx(1e-3)
            assert part.index(max(part)) < 3
            assert part[-1] < 1e-4

    def test_a_run_stopped_within_a_task_goes_on_to_the_same_bits(self):
        whole = trained(method="er", steps=13, batch_size=16)
        half = make_training(method="er", steps=13, batch_size=16)
        state = None

        class Enough(Exception):
            pass

        def boundary():
            nonlocal state
            if half.task_number == 2 and half.epoch == 2:
                state = copy.deepcopy(half.state_dict())
                raise Enough

        with pytest.raises(Enough):
            half.run(boundary)
        resumed = make_training(method="er", steps=13, batch_size=16)
        resumed.load_state_dict(state)
        resumed.run()
        assert resumed.weights_sha256() == whole.weights_sha256()
        assert resumed.optimizer_steps == whole.optimizer_steps


def test_pixels_from_0_to_1():
    training = make_training(method="finetune", pixels="unit")
    seen = training.learner.views.normalised(torch.tensor([[[[0, 51], [204, 255]]]], dtype=torch.uint8))
    assert seen.flatten().tolist() == pytest.approx([0, 0.2, 0.8, 1])


def test_permutations_are_the_same_every_time_and_lose_nothing():
    x = torch.arange(2 * 16, dtype=torch.uint8).reshape(2, 1, 4, 4)
    one, two = permuted(x, 1), permuted(x, 2)
    assert torch.equal(permuted(x, 1), one)
    assert not torch.equal(one, two)
    assert not torch.equal(one, x)
    for image, changed in zip(x, one, strict=True):
        assert sorted(image.flatten().tolist()) == sorted(changed.flatten().tolist())
    assert torch.equal(one[1] - 16, one[0])  # one order for all images of a task


def test_rotations():
    x = torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rotated(x, 1), x)
    quarter = rotated(x, 6).int() - torch.rot90(x, 1, (2, 3)).int()  # five times 18 degrees
    assert quarter.abs().max() <= 1
    half = rotated(x, 11).int() - x.flip((2, 3)).int()
    assert half.abs().max() <= 1


def test_every_task_of_a_changed_benchmark_has_all_classes(tiny_changed):
    training = make_training(method="finetune", benchmark=tiny_changed, scenario="domain", tasks=8)
    assert len(training.tasks) == 8
    assert training.tasks.classes == [tuple(range(6))] * 8
    first, second = training.tasks.task(1), training.tasks.task(2)
    assert torch.equal(first.train.x + 1, second.train.x)
    assert torch.equal(first.test.x + 1, second.test.x)
    assert torch.equal(training.tasks.test.x[60:120], second.test.x)
    held = training.tasks.held_out(0.1, 0)
    assert len(held) == 8 * 24


def test_a_domain_run_is_the_same_twice(tmp_path):
    spec = make_spec(method="er", scenario="domain", epochs=1)
    assert essence(tfcsr.run(spec)) == essence(tfcsr.run(spec))


def test_all_methods_are_those_with_a_meaning_in_the_scenario():
    fields = {"benchmark": "tiny", "scenario": "domain"}
    assert set(METHODS.names()) - set(names_of("all", fields)) >= {"er-ace", "icarl", "tfcsr-distill"}
    assert "icarl" in names_of("all", {"benchmark": "tiny"})
    assert "mgp" not in names_of("all", {"benchmark": "tiny", "steps": 5})
    assert names_of(["icarl"], fields) == ["icarl"]  # whoever names it is told
