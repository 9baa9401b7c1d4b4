"""tfcsr-distill: its loss against the formula written out, and when it replays."""

import dataclasses
import math

import pytest
import torch
from tests.conftest import make_spec, make_training, trained

from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch
from tfcsr.methods.distillation import by_labels
from tfcsr.models.head import features

CLASSES = 6
ORDER = (4, 1, 0, 5, 3, 2)  # tasks of (4, 1), (0, 5) and (3, 2)


def begun(task, model="tiny-linear", **fields):
    """A run that has just begun this task, with weights that are no longer those it began with."""
    more = {"epochs": 1, "warmup_epochs": 0, "class_order": ORDER, "model": model} | fields
    training = make_training(method="tfcsr-distill", **more)
    for number in range(1, task):
        data = training.tasks.task(number)
        for _ in training.learn(data, data.train):
            pass
        training.next_task()
    training.method.begin_task(training.tasks.task(task))
    training.method.mix(training.tasks.task(task), 1)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in training.model.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=draw)
    return training


def a_batch(training, new, replayed):
    """Of these labels; images that the network has not seen."""
    y = torch.tensor([*new, *replayed])
    x = torch.randn((len(y), 1, 4, 4), generator=torch.Generator().manual_seed(2))
    logits, fed = training.learner.with_features(training.model, x)
    return Batch(x, y, len(new), {}, features=fed), logits


def softmax(scores, among):
    """The probability of each class, by its number."""
    total = sum(math.exp(scores[c]) for c in among)
    return {c: math.exp(scores[c]) / total for c in among}


def cross_entropy(rows, labels, among):
    return sum(-math.log(softmax(row, among)[y]) for row, y in zip(rows, labels, strict=True)) / len(rows)


def distance(before, now, among, temperature):
    """T² times the mean over examples of KL(before || now)."""
    total = 0.0
    for was, is_ in zip(before, now, strict=True):
        p, q = (softmax([z / temperature for z in row], among) for row in (was, is_))
        total += sum(p[c] * math.log(p[c] / q[c]) for c in among)
    return temperature**2 * total / len(now)


def literal(training, batch, logits, own, past, rivals=None):
    """The loss as its docstring says it; the replayed compete with `rivals`, else with all seen."""
    spec, rows, y = training.spec, logits.tolist(), batch.y.tolist()
    known = sorted({*past, *own})
    loss = cross_entropy(rows[: batch.new], y[: batch.new], own if spec.new_classes == "own" else known)
    if batch.replayed:
        loss += cross_entropy(rows[batch.new :], y[batch.new :], rivals or known)
    if past and (spec.distill_weight or spec.feature_weight):
        before = training.method.old(batch.x).tolist()
        scale = math.sqrt(len(past) / len(own)) if spec.distill_scaling == "root" else 1.0
        loss += spec.distill_weight * scale * distance(before, rows, past, spec.temperature)
        loss += spec.feature_weight * scale * turned(training, batch)
    return loss


def turned(training, batch):
    """The mean of 1 less the cosine between the features before the task and now."""
    was = features(training.method.old, batch.x).tolist()
    total = 0.0
    for one, other in zip(was, batch.features.tolist(), strict=True):
        inner = sum(a * b for a, b in zip(one, other, strict=True))
        total += 1 - inner / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))
    return total / len(was)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"distill_weight": 3.0, "temperature": 2.0},
        {"temperature": 0.5},
        {"distill_scaling": "none"},
        {"new_classes": "all"},
        {"distill_weight": 0.0},
        {"feature_weight": 0.0},
        {"feature_weight": 5.0, "distill_weight": 0.0},
        {"feature_weight": 0.0, "distill_weight": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("replayed", [(), (4, 1, 1, 0, 5, 2, 3)], ids=["unmixed", "mixed"])
def test_the_loss_is_the_formula(fields, replayed):
    training = begun(3, model="tiny-bn", **fields)
    batch, logits = a_batch(training, (3, 2, 2, 3, 3), replayed)
    expected = literal(training, batch, logits, (3, 2), (0, 1, 4, 5))
    assert training.method.loss(batch, logits).item() == pytest.approx(expected, rel=1e-5)
    if training.method.old is not None:
        assert turned(training, batch) > 0.01


@pytest.mark.parametrize("replayed", [(), (4, 1, 1, 0, 5, 2, 3)], ids=["unmixed", "mixed"])
def test_of_images_with_a_patch_both_labels_count_by_their_area(replayed):
    training = begun(3)
    new, patch = (3, 2, 2, 3), torch.tensor([1, 4, 0, 2])  # 6 of 16 pixels
    batch, logits = a_batch(training, new, replayed)
    others = (*(new[i - 1] for i in range(4)), *(replayed[i - 1] for i in range(len(replayed))))
    whose = dataclasses.replace(batch, y=torch.tensor(others))
    own, other = (literal(training, which, logits, (3, 2), (0, 1, 4, 5)) for which in (batch, whose))
    found = training.method.loss(dataclasses.replace(batch, patch=patch), logits)
    assert found.item() == pytest.approx(own * 10 / 16 + other * 6 / 16, rel=1e-5)
    assert own != pytest.approx(other, rel=1e-3)


def test_where_tasks_are_told_a_patch_of_another_task_keeps_to_its_own():
    training = begun(3, scenario="task")
    batch, logits = a_batch(training, (3, 2), (4, 0, 1, 5))  # each before another task's
    found = training.method.loss(dataclasses.replace(batch, patch=torch.tensor([0, 2, 0, 4])), logits)
    assert found.item() < 100


def test_features_have_their_gradient():
    training = begun(2, model="tiny-bn", distill_weight=0.0)
    batch, logits = a_batch(training, (0, 5), ())
    method, everything = training.method, torch.ones(CLASSES, dtype=torch.bool)
    by_label, _ = by_labels(batch, logits, method.own, everything, method.raised, method.arriving, None)
    grown = method.loss(batch, logits) - by_label
    grown.backward()
    assert all(w.grad.abs().sum() > 0 for name, w in training.model.named_parameters() if name.startswith("0."))
    assert all(w.grad is None for w in training.method.old.parameters())


def test_by_class_the_replayed_compete_with_what_is_due_and_what_arrives():
    """A class of which nothing is replayed is not pushed away; what holds it still does."""
    training = begun(3, schedule_per="class", replay_epochs="due", replay_least=0)
    method, task = training.method, training.tasks.task(3)
    batch, logits = a_batch(training, (3, 2, 2), (4, 3, 2, 4))
    for label, state in method.agenda.classes.items():
        method.agenda.classes[label] = dataclasses.replace(state, next_epoch=method.agenda.epochs + 1)
    method.mix(task, 1)
    assert sorted(method.due) == [0, 1, 4, 5]
    assert method.loss(batch, logits).item() == pytest.approx(
        literal(training, batch, logits, (3, 2), (0, 1, 4, 5)), rel=1e-5
    )
    for label in (0, 1, 5):
        method.agenda.classes[label] = dataclasses.replace(method.agenda.classes[label], next_epoch=999)
    method.mix(task, 1)
    assert method.due == [4]
    assert method.loss(batch, logits).item() == pytest.approx(
        literal(training, batch, logits, (3, 2), (0, 1, 4, 5), rivals=(2, 3, 4)), rel=1e-5
    )
    del method.agenda.classes[4]  # then nothing is due, and nothing replayed
    assert method.mix(task, 1).replay == 0
    batch, logits = a_batch(training, (3, 2, 2), ())
    assert method.loss(batch, logits).item() == pytest.approx(
        literal(training, batch, logits, (3, 2), (0, 1, 4, 5)), rel=1e-5
    )


@pytest.mark.parametrize("fields", [{}, {"replay_epochs": "all", "schedule_per": "class"}], ids=["memory", "all"])
def test_else_they_compete_with_all_that_were_seen(fields):
    training = begun(3, **fields)
    for epoch in (1, 2, 3):
        training.method.mix(training.tasks.task(3), epoch)
        assert torch.equal(training.method.rivals, training.method.known)


def test_tasks_of_other_sizes_scale_it():
    training = begun(2, tasks=2, class_order=(0, 1, 2, 3, 4, 5))  # three old, three new
    batch, logits = a_batch(training, (3, 4, 5), (0, 1, 2))
    assert training.method.loss(batch, logits).item() == pytest.approx(
        literal(training, batch, logits, (3, 4, 5), (0, 1, 2)), rel=1e-5
    )
    training = begun(4, tasks=4, class_order=(0, 1, 2, 3, 4, 5))  # five old, one new
    batch, logits = a_batch(training, (5, 5), (0, 1, 2, 3, 4))
    assert training.method.loss(batch, logits).item() == pytest.approx(
        literal(training, batch, logits, (5,), (0, 1, 2, 3, 4)), rel=1e-5
    )


def test_the_first_task_is_learned_with_nothing_else():
    training = begun(1)
    assert training.method.old is None
    batch, logits = a_batch(training, (4, 1, 1), ())
    expected = cross_entropy(logits.tolist(), [4, 1, 1], (4, 1))
    assert training.method.loss(batch, logits).item() == pytest.approx(expected, rel=1e-6)


def test_the_network_before_the_task_does_not_follow():
    training = begun(2)
    old = training.method.old
    assert not any(parameter.requires_grad for parameter in old.parameters())
    assert not old.training
    before = {name: weight.clone() for name, weight in old.state_dict().items()}
    task = training.tasks.task(2)
    for _ in training.learn(task, task.train):
        pass
    assert training.method.old is old  # in place: a recorded step goes on reading it
    # The task began anew with `learn`, so it is the network as it was then; and no other since.
    assert not all(torch.equal(before[name], weight) for name, weight in old.state_dict().items())
    started = {name: weight.clone() for name, weight in old.state_dict().items()}
    training.next_task()
    training.method.begin_task(training.tasks.task(3))
    now = old.state_dict()
    assert all(torch.equal(now[name], weight) for name, weight in training.model.state_dict().items())
    assert not all(torch.equal(now[name], weight) for name, weight in started.items())


def test_without_weight_no_copy_is_kept():
    training = trained(method="tfcsr-distill", distill_weight=0.0, feature_weight=0.0, epochs=1)
    assert training.method.old is None
    assert trained(method="tfcsr-distill", distill_weight=0.0, epochs=1).method.old is not None
    assert trained(method="tfcsr-distill", epochs=1).method.old is not None


@pytest.mark.parametrize("replayed", [(), (4, 1, 0, 5)], ids=["unmixed", "mixed"])
def test_bare_of_what_it_adds_it_is_er_ace(replayed):
    fields = {"distill_weight": 0.0, "feature_weight": 0.0, "distill_scaling": "none", "new_classes": "own"}
    training = begun(3, **fields)
    # er-ace's replayed compete with all outputs, of which here all are known.
    batch, logits = a_batch(training, (3, 2, 2), replayed)
    ace = METHODS.get("er-ace")(make_training(method="er-ace").learner)
    assert training.method.loss(batch, logits).item() == pytest.approx(ace.loss(batch, logits).item(), rel=1e-6)


@pytest.mark.parametrize("new_classes", ["own", "all", "balanced"])
@pytest.mark.parametrize("temperature", [0.05, 4.0, 100.0])
def test_logits_of_classes_not_yet_seen_get_no_gradient(new_classes, temperature):
    training = begun(2, new_classes=new_classes, temperature=temperature)
    batch, logits = a_batch(training, (0, 5, 5), (4, 1, 0))
    logits.retain_grad()
    training.method.loss(batch, logits).backward()
    moved = logits.grad.abs().sum(dim=0) > 0
    assert moved.tolist() == [True, True, False, False, True, True]
    # And whatever they are, it is the same loss.
    other = logits.detach().clone()
    other[:, [2, 3]] += 50
    assert training.method.loss(batch, other).item() == pytest.approx(
        training.method.loss(batch, logits).item(), rel=1e-6
    )


def test_new_examples_do_not_push_old_classes_but_for_what_holds_them():
    training = begun(2, distill_weight=0.0)
    batch, logits = a_batch(training, (0, 5, 5), (4, 1, 0))
    logits.retain_grad()
    training.method.loss(batch, logits).backward()
    assert (logits.grad[:3, [4, 1]] == 0).all()
    assert (logits.grad[3:, [4, 1, 0, 5]] != 0).all()


# Balanced: by what an epoch trains on


def balanced(task=3, **fields):
    return begun(task, new_classes="balanced", distill_weight=0.0, feature_weight=0.0, **fields)


def shares(labels):
    return {label: labels.count(label) / len(labels) for label in labels}


def weighed(rows, labels, share):
    """The cross-entropy in which each class weighs as much as its share."""
    total = 0.0
    for row, y in zip(rows, labels, strict=True):
        total -= math.log(share[y] * math.exp(row[y]) / sum(share[c] * math.exp(row[c]) for c in share))
    return total / len(rows)


def keep_fewer(training, label, count):
    """Of this class no more in the memory, so that it has another share than the rest."""
    buffer = training.learner.buffer
    labels = buffer.y[: len(buffer)]
    labels[(labels == label).nonzero().squeeze(1)[count:]] = 4
    assert labels.tolist().count(label) == count


@pytest.mark.parametrize("replayed", [(), (4, 1, 1, 0, 5, 2, 3)], ids=["unmixed", "mixed"])
def test_balanced_each_class_weighs_as_much_as_its_share_of_what_is_trained_on(replayed):
    training = balanced(replay_epochs="all" if replayed else "none")
    task, buffer = training.tasks.task(3), training.learner.buffer
    task.train.y[:20] = 2  # more of one new class than of the other
    keep_fewer(training, 1, 2)
    training.method.mix(task, 1)
    share, kept = shares(task.train.y.tolist()), shares(buffer.y[: len(buffer)].tolist())
    assert share[2] != share[3]
    if replayed:
        share = {label: share.get(label, 0.0) + kept.get(label, 0.0) for label in range(CLASSES)}
        assert len({round(value, 6) for value in share.values()}) > 3
    batch, logits = a_batch(training, (3, 2, 2, 3, 3), replayed)
    rows, y = logits.tolist(), batch.y.tolist()
    expected = weighed(rows[:5], y[:5], share) + (weighed(rows[5:], y[5:], share) if replayed else 0.0)
    assert training.method.loss(batch, logits).item() == pytest.approx(expected, rel=1e-5)


def test_balanced_it_is_with_nothing_to_replay_what_it_is_among_its_own():
    """As many of one new class as of the other, so that none is raised above the other."""
    losses = []
    for new_classes in ("balanced", "own"):
        training = begun(3, new_classes=new_classes, replay_epochs="none")
        task = training.tasks.task(3)
        task.train.y[:] = torch.tensor([3, 2]).repeat(len(task.train) // 2)
        training.method.mix(task, 1)
        batch, logits = a_batch(training, (3, 2, 2, 3, 3), ())
        losses.append(training.method.loss(batch, logits).item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(("new_classes", "neutral"), [("balanced", True), ("all", False), ("own", False)])
def test_balanced_what_says_nothing_stays_so_whatever_the_shares(new_classes, neutral):
    """Where images tell nothing, no class is to be preferred: on what is trained on, the loss asks for no change."""
    training = begun(3, new_classes=new_classes, distill_weight=0.0, feature_weight=0.0, replay_epochs="all")
    task, buffer = training.tasks.task(3), training.learner.buffer
    keep_fewer(training, 1, 2)
    training.method.mix(task, 1)
    batch, _ = a_batch(training, task.train.y.tolist(), buffer.y[: len(buffer)].tolist())
    logits = torch.zeros((len(batch.y), CLASSES), requires_grad=True)
    training.method.loss(batch, logits).backward()
    wished = logits.grad.sum(dim=0).abs().max()
    assert (wished < 1e-6) == neutral


def test_balanced_by_class_it_goes_by_what_is_due_and_what_arrives():
    training = balanced(schedule_per="class", replay_epochs="due", replay_least=0)
    method, task, buffer = training.method, training.tasks.task(3), training.learner.buffer
    for label, state in method.agenda.classes.items():
        method.agenda.classes[label] = dataclasses.replace(state, next_epoch=1 if label == 4 else 999)
    assert method.mix(task, 1).replay > 0
    assert method.due == [4]
    kept = [label for label in buffer.y[: len(buffer)].tolist() if label in (2, 3, 4)]
    share, among = shares(task.train.y.tolist()), shares(kept)
    share = {label: share.get(label, 0.0) + among[label] for label in (2, 3, 4)}
    batch, logits = a_batch(training, (3, 2, 2), (4, 3, 2, 4))
    rows, y = logits.tolist(), batch.y.tolist()
    expected = weighed(rows[:3], y[:3], share) + weighed(rows[3:], y[3:], share)
    assert method.loss(batch, logits).item() == pytest.approx(expected, rel=1e-5)


def test_a_network_that_has_not_moved_is_at_no_distance():
    training = begun(3)
    training.model.load_state_dict(training.method.old.state_dict())
    batch, logits = a_batch(training, (3, 2), (4,))
    plain = begun(3, distill_weight=0.0, feature_weight=0.0)
    assert training.method.loss(batch, logits).item() == pytest.approx(
        plain.method.loss(batch, logits).item(), rel=1e-5
    )


# When it replays

DUE_ALONE = {"replay_least": 0, "consolidate_at": 0}


def replaying(**fields):
    """The epochs that replayed, and the run."""
    found = []

    def listener(event):
        if event["event"] == "epoch_finished" and event["replayed"]:
            found.append((event["task"], event["epoch"]))

    training = make_training((listener,), method="tfcsr-distill", **fields)
    training.run()
    return found, training


def test_it_replays_in_the_epochs_that_are_due():
    found, training = replaying(epochs=14, **DUE_ALONE)
    assert training.spec.replay_epochs == "due"
    assert found == [(task, epoch) for task in (2, 3) for epoch in (1, 3, 5, 8, 13)]
    # 80 examples: 10 batches of 8 + 8 where replayed, else 5 of 16.
    assert training.replay_batches == 2 * 5 * 10
    assert training.replayed == 2 * 5 * 10 * 8
    assert training.optimizer_steps == 100 + (3 * 14 - 10) * 5
    assert training.samples_seen == 100 * 16 + (3 * 14 - 10) * 80
    # The memory is probed in the first task, too, as tfcsr's is.
    assert {(p["task"], p["epoch"]) for p in training.learner.probes} == {(1, e) for e in (1, 3, 5, 8, 13)} | {*found}


@pytest.mark.parametrize(
    ("epochs", "expected"), [("all", {1, 2, 3}), ("none", set()), ("2", {2}), ("1,3", {1, 3})], ids=str
)
def test_nor_does_it_ever_replay_in_the_first_task(epochs, expected):
    found, training = replaying(replay_epochs=epochs, epochs=3)
    assert found == [(task, epoch) for task in (2, 3) for epoch in sorted(expected)]
    assert training.replay_batches == 10 * len(found)
    assert training.replayed == 80 * len(found)


@pytest.mark.parametrize("fields", [{}, {"schedule_per": "class"}, {"buffer_fill": "after"}], ids=str)
def test_a_class_that_comes_alone_is_replayed_in_every_epoch(fields):
    """Among its own it has nobody to compete with: by new examples alone nothing would be learned of it."""
    found, training = replaying(tasks=5, epochs=3, class_order=(0, 1, 2, 3, 4, 5), **fields)
    assert [len(part) for part in training.tasks.classes] == [2, 1, 1, 1, 1]
    assert found == [(task, epoch) for task in (2, 3, 4, 5) for epoch in (1, 2, 3)]
    assert replaying(tasks=6, epochs=1)[0] == [(task, 1) for task in range(2, 7)]


def test_nobody_asks_and_it_replays_all_the_same():
    fields = {"epochs": 5, **DUE_ALONE}
    assert (
        replaying(probe_mode="none", **fields)[0]
        == replaying(**fields)[0]
        == [(t, e) for t in (2, 3) for e in (1, 3, 5)]
    )


def test_a_short_task_has_no_epoch_to_spare():
    found, training = replaying(epochs=6)
    assert training.spec.replay_least == 300
    assert found == [(task, epoch) for task in (2, 3) for epoch in range(1, 7)]


def test_the_least_replay_is_spread_over_the_task():
    """10 batches an epoch that replays, and half as many wanted of each by then."""
    found, training = replaying(epochs=14, replay_least=70, consolidate_at=0)
    assert found == [(task, epoch) for task in (2, 3) for epoch in (1, 3, 5, 7, 8, 11, 13)]
    assert training.replay_batches == 2 * 70
    # Nothing is asked because of it.
    assert {p["epoch"] for p in training.learner.probes} == {1, 3, 5, 8, 13}


def test_what_a_task_has_replayed_outlasts_a_stop():
    fields = {"method": "tfcsr-distill", "epochs": 14, "replay_least": 70, "consolidate_at": 0}
    training, other = make_training(**fields), make_training(**fields)
    for _ in training.advance():
        if (training.task_number, training.epoch) == (2, 6):
            break
    other.method.load_state_dict(training.method.state_dict())
    assert other.method.agenda.batches == training.method.agenda.batches == 30


@pytest.mark.parametrize(("least", "epochs"), [(30, (1, 3, 5, 8)), (60, (1, 3, 5, 7, 8)), (120, (1, 2, 3, 4, 5, 6))])
def test_where_steps_count_the_least_replay_goes_by_them(least, epochs):
    """80 examples make 5 batches of 16, or 10 where replayed: 60 steps are some 12 passes."""
    found, _ = replaying(steps=60, epochs=1, warmup_epochs=0, replay_least=least, consolidate_at=0)
    assert found == [(task, epoch) for task in (2, 3) for epoch in epochs]


@pytest.mark.parametrize(
    ("at", "rate", "expected"),
    [
        (1e-6, 1e-9, {1, 2, 3, 4, 5, 6, 7}),  # one right answer is enough
        (100, 1e-9, {1, 3, 5}),  # what is not learned is not known
        (0, 1e-2, {1, 3, 5}),
    ],
)
def test_once_the_new_is_known_every_epoch_replays(at, rate, expected):
    found, _ = replaying(epochs=7, replay_least=0, consolidate_at=at, lr=rate)
    assert found == [(task, epoch) for task in (2, 3) for epoch in sorted(expected)]


def test_the_new_is_known_by_the_answers_of_an_epoch():
    """4 of 5 right are 80 %; the next epoch counts anew, and so does the next task."""
    training = begun(2, consolidate_at=80, replay_least=0)
    method, task = training.method, training.tasks.task(2)
    method.answered(torch.tensor(4), 4)
    method.answered(torch.tensor(0), 1)
    assert not method.knows_new
    method.end_epoch(task, 1)
    assert method.knows_new
    assert method.replays(task, 2)
    assert (method.asked, method.right) == (0, 0)
    other = begun(2, consolidate_at=80, replay_least=0).method
    other.load_state_dict(method.state_dict())
    assert other.knows_new
    method.answered(torch.tensor(2), 3)
    method.end_epoch(task, 2)
    assert not method.knows_new
    method.knows_new = True
    method.begin_task(training.tasks.task(3))
    assert not method.knows_new


def test_the_answers_are_those_among_the_classes_that_arrive():
    training = begun(2, consolidate_at=50)
    method = training.method
    old, new = training.tasks.classes[0][0], training.tasks.classes[1][0]
    batch, logits = a_batch(training, (new, new, new), (old,))
    logits = torch.zeros_like(logits).detach()
    logits[:, old], logits[:2, new] = 9.0, 1.0
    logits[2, training.tasks.classes[1][1]] = 1.0
    method.loss(batch, logits)
    assert (method.asked, method.right) == (3, 2)


def test_what_has_not_come_yet_is_no_answer():
    training = begun(2)
    known = {label for part in training.tasks.classes[:2] for label in part}
    x = training.tasks.task(1).train.x
    with torch.no_grad():
        training.model[-1].bias[list({*range(6)} - known)] = 99.0
        assert {*training.method.predict(x).argmax(dim=1).tolist()} <= known
        training.method.known.zero_()  # before the first task
        assert {*training.method.predict(x).argmax(dim=1).tolist()} <= {*range(6)} - known


@pytest.mark.parametrize("epochs", ["all", "1,3", "none"])
def test_with_epochs_given_nothing_is_counted(epochs):
    one, other = (trained_weights(replay_epochs=epochs, consolidate_at=at, epochs=4) for at in (0, 1e-6))
    assert one == other


def trained_weights(**fields):
    _, training = replaying(**fields)
    assert training.method.asked == 0
    return [p.tolist() for p in training.model.parameters()]


def test_its_settings_are_defaults_that_can_be_given_otherwise():
    spec = make_spec(method="tfcsr-distill")
    assert (spec.policy, spec.replay_epochs, spec.mastery_threshold) == ("herding", "due", 0.0)
    assert (spec.optimizer, spec.lr_schedule, spec.cutmix) == ("adamw", "cosine", 0.5)
    assert make_spec(method="tfcsr-distill", policy="reservoir", optimizer="sgd").policy == "reservoir"
