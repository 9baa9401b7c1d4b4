"""ER-ACE, DER++ and iCaRL against values worked out by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tfcsr.methods
from tfcsr.buffer.buffer import Buffer
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Examples, Task
from tfcsr.data.views import Views
from tfcsr.errors import SpecError
from tfcsr.generators import Generators
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch, Method
from tfcsr.methods.learner import Learner
from tfcsr.testing import make_spec, make_training, trained
from tfcsr.training.checkpoint import Checkpoints

CLASSES = 4


def linear(weight: list[list[float]]) -> nn.Sequential:
    """Logits W x of images of two pixels, which are the features."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, CLASSES, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor(weight))
    return model


def method_of(name: str, weight: list[list[float]] | None = None, capacity: int = 12, **fields: object) -> Method:
    images = np.ones((CLASSES, 1, 1, 2), np.uint8)
    labels = np.arange(CLASSES)
    dataset = Dataset("bare", images, labels, images, labels, tuple("abcd"), 1.0, (0.0,), (1.0,))
    kind = METHODS.get(name)
    learner = Learner(
        spec=make_spec(method=name, **fields),
        model=linear(weight or [[0.0, 0.0]] * CLASSES),
        views=Views.of(dataset, "cpu"),
        buffer=Buffer(capacity, (1, 1, 2), beside=kind.fields(CLASSES)),
        generators=Generators(0),
        emit=lambda kind, **values: None,
        classes=CLASSES,
    )
    learner.method = kind(learner)
    return learner.method


def images(*pixels: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pixels, dtype=torch.uint8).reshape(-1, 1, 1, 2)


def task_of(number: int, classes: tuple[int, ...], x: torch.Tensor, y: list[int]) -> Task:
    examples = Examples(x, torch.tensor(y))
    return Task(number, classes, examples, Examples(x[:0], examples.y[:0]), examples)


def batch_of(y: list[int], new: int, stored: list[list[float]] | None = None, x: torch.Tensor | None = None) -> Batch:
    pixels = torch.zeros(len(y), 1, 1, 2) if x is None else x.float()
    return Batch(pixels, torch.tensor(y), new, {} if stored is None else {"logits": torch.tensor(stored)})


def cross_entropy(logits: list[float], label: int, among: tuple[int, ...] = tuple(range(CLASSES))) -> float:
    return math.log(sum(math.exp(logits[c]) for c in among)) - logits[label]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def bce(logit: float, target: float) -> float:
    return -target * math.log(sigmoid(logit)) - (1 - target) * math.log(1 - sigmoid(logit))


@pytest.mark.parametrize("name", ["er_ace", "derpp", "icarl"])
def test_a_method_of_the_literature_is_a_short_file(name):
    path = Path(tfcsr.methods.__path__[0]) / f"{name}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


# ER-ACE

LOGITS = [[1.0, 2.0, -1.0, 0.5], [0.0, 1.0, 3.0, -2.0], [2.0, 0.0, 1.0, 1.0], [-1.0, 0.5, 0.0, 2.0]]


def test_er_ace_new_examples_compete_with_the_classes_among_them_replayed_with_all():
    # New: classes 1 and 2. Only these compete: ln(e² + e⁻¹) - 2 = ln(1 + e⁻³), and ln(e¹ + e³) - 3 = ln(1 + e⁻²).
    new = (math.log(1 + math.exp(-3)) + math.log(1 + math.exp(-2))) / 2
    # Replayed, classes 0 and 3, among all four.
    old = (cross_entropy(LOGITS[2], 0) + cross_entropy(LOGITS[3], 3)) / 2
    found = method_of("er-ace").loss(batch_of([1, 2, 0, 3], new=2), torch.tensor(LOGITS))
    assert found.item() == pytest.approx(new + old, rel=1e-6)


def test_er_ace_the_two_means_weigh_the_same_however_many_examples_they_are_of():
    new = sum(cross_entropy(LOGITS[i], y, (1, 2)) for i, y in ((0, 1), (1, 2), (2, 2))) / 3
    found = method_of("er-ace").loss(batch_of([1, 2, 2, 3], new=3), torch.tensor(LOGITS))
    assert found.item() == pytest.approx(new + cross_entropy(LOGITS[3], 3), rel=1e-6)


def test_er_ace_without_replay():
    found = method_of("er-ace").loss(batch_of([1, 2], new=2), torch.tensor(LOGITS[:2]))
    assert found.item() == pytest.approx((math.log(1 + math.exp(-3)) + math.log(1 + math.exp(-2))) / 2, rel=1e-6)
    # One class alone has nobody to compete with.
    alone = method_of("er-ace").loss(batch_of([1, 1], new=2), torch.tensor(LOGITS[:2]))
    assert alone.item() == 0


def test_er_ace_classes_left_out_have_no_share_however_small_the_others_logits():
    low, usual = ([[z - (300 if c in (1, 2) else 0) for c, z in enumerate(row)] for row in LOGITS[:2]], LOGITS[:2])
    one, other = (method_of("er-ace").loss(batch_of([1, 2], new=2), torch.tensor(z)) for z in (low, usual))
    assert one.item() == pytest.approx(other.item(), rel=1e-4)


def test_er_ace_a_new_example_does_not_move_the_logits_of_classes_that_are_not_among_the_new():
    logits = torch.tensor(LOGITS, requires_grad=True)
    method_of("er-ace").loss(batch_of([1, 2, 0, 3], new=2), logits).backward()
    assert logits.grad[:2, [0, 3]].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    # The gradient is (p - 1) / n for the label and p / n for the rest, where p is of two classes: 1 / (1 + e³).
    p = 1 / (1 + math.exp(3))
    assert logits.grad[0, [1, 2]].tolist() == pytest.approx([-p / 2, p / 2], rel=1e-5)
    assert bool((logits.grad[2:] != 0).all())


# DER++

STORED = [[0.0, 1.0, 3.0, -2.0], [1.0, 0.0, 1.0, 1.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]


def test_derpp_new_replayed_for_its_logits_and_replayed_for_its_labels():
    logits = [[0.5, 0.0, 1.0, -1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 3.0, 3.0, -2.0], [2.0, 0.0, 1.0, -1.0], *LOGITS[2:]]
    new = (cross_entropy(logits[0], 2) + cross_entropy(logits[1], 3)) / 2
    # Against the stored: (0, 2, 0, 0) and (1, 0, 0, -2): squares 4 + 1 + 4 = 9, over 2 x 4 logits.
    distance = 9 / 8
    # The last two are there for their labels; what is stored beside them is not looked at.
    again = (cross_entropy(logits[4], 0) + cross_entropy(logits[5], 1)) / 2
    found = method_of("derpp", alpha=0.3, beta=0.7).loss(
        batch_of([2, 3, 1, 1, 0, 1], new=2, stored=STORED), torch.tensor(logits)
    )
    assert found.item() == pytest.approx(new + 0.3 * distance + 0.7 * again, rel=1e-6)


def test_derpp_labels_of_the_first_half_do_not_matter():
    logits, method = torch.tensor([*LOGITS, *LOGITS[:2]]), method_of("derpp")
    one, other = (method.loss(batch_of([2, 3, *y, 0, 1], new=2, stored=STORED), logits) for y in ((0, 0), (1, 3)))
    assert one.item() == other.item()


def test_derpp_without_replay_is_cross_entropy():
    found = method_of("derpp").loss(batch_of([2, 3], new=2), torch.tensor(LOGITS[:2]))
    assert found.item() == pytest.approx((cross_entropy(LOGITS[0], 2) + cross_entropy(LOGITS[1], 3)) / 2, rel=1e-6)


def test_derpp_draws_twice_half_each_independently():
    method = method_of("derpp", batch_size=10)
    buffer = method.learner.buffer
    buffer.add(images(*[(i, 0) for i in range(12)]), torch.arange(12) % CLASSES, torch.Generator())
    mix = method.mix(task_of(2, (2, 3), images((1, 1)), [2]), 1)
    assert (mix.new, mix.replay, mix.stride) == (5, 10, 5)
    drawn = method.draw(7, mix.replay)
    generator = Generators(0)["replay"]
    first, second = buffer.draw(7, 5, generator), buffer.draw(7, 5, generator)
    assert torch.equal(drawn, torch.cat([first, second], dim=1))
    assert all(len({*row}) == 5 for half in (drawn[:, :5], drawn[:, 5:]) for row in half.tolist())
    assert any(len({*row}) < 10 for row in drawn.tolist())  # what one half holds the other may hold too


def test_derpp_replays_a_small_buffer_whole_twice():
    method = method_of("derpp", batch_size=10)
    method.learner.buffer.add(images((1, 0), (2, 0), (3, 0)), torch.tensor([0, 1, 2]), torch.Generator())
    mix = method.mix(task_of(2, (2, 3), images((1, 1)), [2]), 1)
    assert mix.replay == 6
    assert method.draw(1, 6).reshape(2, 3).sort(dim=1).values.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_derpp_stores_the_logits_of_the_network_at_the_end_of_the_task():
    training = make_training(method="derpp", buffer_capacity=24, lr=0.01)
    said: dict[bytes, torch.Tensor] = {}
    end_task = training._end_task

    def compare(task, logits):
        buffer = training.learner.buffer
        now = training.learner.logits(buffer.x[: len(buffer)])
        apart = (now - buffer.fields["logits"][: len(buffer)]).abs().amax(dim=1)
        for image, label, stored, distance, row in zip(
            buffer.x, buffer.y.tolist(), buffer.fields["logits"], apart.tolist(), now, strict=True
        ):
            if label in task.classes:
                assert distance < 1e-5
                said[image.numpy().tobytes()] = row
            else:
                assert torch.allclose(stored, said[image.numpy().tobytes()], atol=1e-5)
                assert distance > 0.01  # the network has moved on, what was stored has not
        assert buffer.fields["logits"].shape == (24, 6)
        end_task(task, logits)

    training._end_task = compare
    training.run()
    assert len(said) > 24


def test_derpp_refuses_to_fill_the_buffer_before_a_task():
    assert make_spec(method="derpp").buffer_fill == "after"
    with pytest.raises(SpecError, match="yet to learn"):
        make_spec(method="derpp", buffer_fill="before")


# iCaRL


def test_icarl_learns_new_classes_by_their_labels_and_passes_over_those_not_yet_seen():
    method = method_of("icarl")
    method.begin_task(task_of(1, (1, 2), images((1, 0)), [1]))
    logits = [[0.3, 1.0, -2.0, 5.0], [0.7, 0.5, 0.2, -4.0], [0.0, -1.0, 0.0, 9.0]]
    # Of classes 1 and 2 alone: summed over classes, averaged over examples.
    by_hand = (bce(1.0, 1) + bce(-2.0, 0) + bce(0.5, 0) + bce(0.2, 1) + bce(-1.0, 0) + bce(0.0, 1)) / 3
    assert method.loss(batch_of([1, 2, 2], new=3), torch.tensor(logits)).item() == pytest.approx(by_hand, rel=1e-6)


def test_icarl_learns_old_classes_by_what_the_network_said_of_them_before():
    weight = [[0.0, 0.0], [0.5, -0.25], [0.1, 0.2], [0.3, 0.3]]
    method = method_of("icarl", weight)
    method.begin_task(task_of(1, (1, 2), images((1, 0)), [1]))
    assert method.old is None
    method.begin_task(task_of(2, (0,), images((1, 0)), [0]))
    with torch.no_grad():
        method.learner.model[1].weight.fill_(7.0)  # training goes on: the old copy does not
    x = images((2, 4), (3, 1))
    logits = [[1.0, -1.0, 0.5, 8.0], [0.0, 2.0, -0.5, -8.0]]
    # The old network: of (2, 4) class 1 is at 1 - 1 = 0 and class 2 at 0.2 + 0.8 = 1; of (3, 1) at 1.25 and at 0.5.
    # Class 0 is new: the first example is of it, the second, replayed, of class 1. Class 3 is not seen yet.
    first = bce(1.0, 1) + bce(-1.0, sigmoid(0.0)) + bce(0.5, sigmoid(1.0))
    second = bce(0.0, 0) + bce(2.0, sigmoid(1.25)) + bce(-0.5, sigmoid(0.5))
    found = torch.tensor(logits, requires_grad=True)
    loss = method.loss(batch_of([0, 1], new=1, x=x), found)
    assert loss.item() == pytest.approx((first + second) / 2, rel=1e-6)
    loss.backward()
    # σ(logit) - target, over 2 examples; 0 for the class not seen yet.
    assert found.grad[0].tolist() == pytest.approx(
        [(sigmoid(1.0) - 1) / 2, (sigmoid(-1.0) - 0.5) / 2, (sigmoid(0.5) - sigmoid(1.0)) / 2, 0.0], rel=1e-5
    )
    assert method.learner.model[1].weight.grad is None


def test_icarl_answers_with_the_nearest_mean_of_features_of_length_1():
    method = method_of("icarl")
    x = images((30, 40), (1, 0), (0, 7), (0, 9))
    method.learner.buffer.add(x, torch.tensor([0, 0, 2, 2]), torch.Generator())
    # Class 0: (0.6, 0.8) and (1, 0), mean (0.8, 0.4), at length 1 (2, 1) / √5. Class 2: (0, 1).
    zero, two = (2 / math.sqrt(5), 1 / math.sqrt(5)), (0.0, 1.0)
    asked = ((1, 0), (0, 3), (30, 40), (3, 10))
    scores = method.predict(images(*asked))
    for pixels, score in zip(asked, scores.tolist(), strict=True):
        feature = [value / math.hypot(*pixels) for value in pixels]
        assert score[0] == pytest.approx(-math.dist(feature, zero), abs=1e-5)
        assert score[2] == pytest.approx(-math.dist(feature, two), abs=1e-5)
        # Without an exemplar there is no mean: they never win, not even where they are the network's answer.
        assert score[1] == score[3] == -math.inf
    # Of (30, 40), an exemplar of class 0: at 0.46 from its class's mean and 0.63 from the other's.
    assert scores.argmax(dim=1).tolist() == [0, 2, 0, 2]


def test_icarl_a_long_feature_counts_no_more_than_a_short_one():
    method = method_of("icarl")
    method.learner.buffer.add(images((0, 10), (3, 0)), torch.tensor([1, 3]), torch.Generator())
    # Not at length 1, (1, 2) would be nearer to (3, 0), by 8 to 65 squared.
    assert method.predict(images((1, 2))).argmax().item() == 1


def test_icarl_with_an_empty_buffer_answers_with_the_network():
    method = method_of("icarl", [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert method.predict(images((2, 5))).tolist() == [[0.0, 2.0, 5.0, 0.0]]


def test_icarl_is_judged_by_its_means_of_exemplars():
    training = trained(method="icarl", epochs=2)
    chosen = training.method.predict(training.tasks.test.x).argmax(dim=1)
    right = (chosen == training.tasks.test.y).split(training.tasks.test_sizes)
    assert [100 * float(part.float().mean()) for part in right] == pytest.approx(list(training.accuracy_matrix[-1]))
    assert not torch.equal(chosen, training.learner.logits(training.tasks.test.x).argmax(dim=1))


def weights(model: nn.Module) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}


def test_icarl_the_old_network_is_that_of_the_beginning_of_the_task():
    at_the_end, old = {}, {}

    def listener(event):
        if event["event"] == "task_finished":
            at_the_end[event["task"]] = weights(training.model)
        if event["event"] == "epoch_finished":
            kept = training.method.old
            old[event["task"], event["epoch"]] = None if kept is None else weights(kept)
            assert kept is None or not any(module.training for module in kept.modules())

    training = make_training((listener,), method="icarl", epochs=3)
    training.run()
    for task in (1, 2, 3):
        for epoch in (1, 2, 3):
            assert old[task, epoch] == at_the_end.get(task - 1)
    assert at_the_end[1] != at_the_end[2] != at_the_end[3]


@pytest.mark.parametrize("task", [1, 2, 3])
def test_icarl_goes_on_from_a_checkpoint_with_its_old_network(tmp_path, task):
    fields = {"method": "icarl", "epochs": 2}
    whole = make_training(**fields)
    checkpoints = Checkpoints(tmp_path / "checkpoints", whole.spec.key())
    old: list[dict[str, list[float]] | None] = []

    def save():
        if (whole.task_number, whole.epoch) == (task, 1):
            checkpoints.save(1, whole.state_dict(), 0)
            old.append(None if whole.method.old is None else weights(whole.method.old))

    whole.run(save)
    resumed = make_training(**fields)
    resumed.load_state_dict(Checkpoints(tmp_path / "checkpoints", whole.spec.key()).load().state)
    if task == 1:
        assert resumed.method.old is None
    else:
        assert weights(resumed.method.old) == old[0]
        assert not any(p.requires_grad for p in resumed.method.old.parameters())
    assert resumed.method.known.sum() == 2 * task
    assert resumed.method.past.sum() == 2 * (task - 1)
    resumed.run()
    assert resumed.weights_sha256() == whole.weights_sha256()
    assert resumed.accuracy_matrix == whole.accuracy_matrix
