"""The optimizers are torch's, and the learning rate is what the spec says it is, step by step."""

import copy
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfcsr.errors import SpecError
from tfcsr.testing import Recorder, captured, make_spec, make_training, trained
from tfcsr.training import step
from tfcsr.training.loop import build_model
from tfcsr.training.optimizers import make_optimizer, rates, set_rate, without_compiler


def of_task(epochs: int, steps: int, **fields: object) -> list[float]:
    spec = make_spec(method="finetune", epochs=epochs, **fields)
    return [rate for epoch in range(1, epochs + 1) for rate in rates(spec, epoch - 1, epochs, steps, steps).tolist()]


def test_constant_after_a_warm_up_by_hand():
    # Half an epoch of four steps is two: half of it, all of it, and from then on all of it.
    assert of_task(2, 4, lr=0.1, warmup_epochs=0.5) == pytest.approx([0.05] + 7 * [0.1])


def test_cosine_by_hand():
    # Eight steps: cos of 0, 22.5, 45, .. 157.5 degrees; the fifth is at 90, half way down.
    expected = [0.1 * 0.5 * (1 + math.cos(math.radians(22.5 * k))) for k in range(8)]
    found = of_task(2, 4, lr=0.1, lr_schedule="cosine")
    assert found == pytest.approx(expected)
    assert (found[0], found[4]) == pytest.approx((0.1, 0.05))
    assert 0 < found[-1] < 0.005


def test_cosine_after_a_warm_up_by_hand():
    # Two steps up; then the remaining six fall along cos of 0, 30, 60, .. 150 degrees.
    expected = [0.05, 0.1, 0.1, 0.1 * 0.5 * (1 + math.sqrt(3) / 2), 0.075, 0.05, 0.025]
    expected.append(0.1 * 0.5 * (1 - math.sqrt(3) / 2))
    assert of_task(2, 4, lr=0.1, lr_schedule="cosine", warmup_epochs=0.5) == pytest.approx(expected)


def test_a_warm_up_that_ends_within_a_step_by_hand():
    # 0.3 epochs of four steps: after one step 0.25 / 0.3 of the way, after two beyond its end.
    assert of_task(1, 4, lr=0.3, warmup_epochs=0.3) == pytest.approx([0.25, 0.3, 0.3, 0.3])


def test_a_warm_up_longer_than_the_task_reaches_the_rate_in_its_last_step():
    # Five epochs would be asked for, there are two: eighths.
    for schedule in ("constant", "cosine"):
        found = of_task(2, 4, lr=0.8, warmup_epochs=5, lr_schedule=schedule)
        assert found == pytest.approx([0.1 * k for k in range(1, 9)])


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_task_may_be_all_warm_up_where_steps_count(schedule):
    # Of a pass of 14 steps 4 are taken: the others have a rate, but are planned in vain.
    spec = make_spec(method="finetune", epochs=1, lr=0.8, lr_schedule=schedule, warmup_epochs=1)
    assert rates(spec, 0, 1, 14, 4).tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8] + 10 * [0.8])
    training = trained(method="tfcsr-distill", steps=4, epochs=1)
    assert training.spec.warmup_epochs == 1
    assert training.optimizer_steps == 3 * 4


def test_a_constant_rate_is_no_list_of_rates():
    assert rates(make_spec(method="finetune"), 0, 4, 5, 5) is None


@given(
    epochs=st.integers(1, 12),
    steps=st.integers(1, 30),
    warmup=st.floats(0, 15),
    lr=st.floats(1e-6, 10),
    schedule=st.sampled_from(["constant", "cosine"]),
)
def test_the_rate_is_never_above_lr_nor_zero_and_rises_before_it_falls(epochs, steps, warmup, lr, schedule):
    if schedule == "constant" and warmup == 0:
        return
    found = of_task(epochs, steps, lr=lr, warmup_epochs=warmup, lr_schedule=schedule)
    assert len(found) == epochs * steps
    assert max(found) <= lr
    assert min(found) > 0
    assert max(found) == pytest.approx(lr)
    top = found.index(max(found))
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)


def test_every_task_has_the_schedule_from_its_beginning_and_every_step_its_rate(monkeypatch):
    used: list[float] = []

    def record(optimizer, rate):
        set_rate(optimizer, rate)
        used.append(optimizer.param_groups[0]["lr"])

    monkeypatch.setattr(step, "set_rate", record)
    # 80 examples in batches of 24: three of them and one of 8, in each of 4 epochs.
    fields = {"lr": 0.01, "lr_schedule": "cosine", "warmup_epochs": 1, "batch_size": 24, "epochs": 4}
    trained(method="finetune", **fields)
    one = [0.0025, 0.005, 0.0075, 0.01]
    one += [0.01 * 0.5 * (1 + math.cos(math.pi * k / 12)) for k in range(12)]
    assert used == pytest.approx(one * 3)


def test_the_rate_is_the_one_the_optimizer_steps_with():
    """With plain sgd a step is the gradient times the rate."""
    training = make_training(
        method="finetune",
        model="tiny-linear",
        tasks=1,
        epochs=1,
        optimizer="sgd",
        momentum=0.0,
        lr=0.1,
        warmup_epochs=1,
    )
    moved: list[float] = []
    before = [p.detach().clone() for p in training.model.parameters()]

    def after_step():
        now = [p.detach().clone() for p in training.model.parameters()]
        gradient = training.model[1].weight.grad
        moved.append(float((before[0] - now[0]).norm() / gradient.norm()))
        before[:] = now

    training.method.after_step = after_step
    training.run()
    assert moved == pytest.approx([0.1 * k / 15 for k in range(1, 16)], rel=1e-3)  # 240 examples in batches of 16


def test_by_default_the_rate_is_a_plain_number_that_nobody_sets(monkeypatch):
    monkeypatch.setattr(step, "set_rate", lambda optimizer, rate: pytest.fail("set"))
    training = trained(method="er", lr=0.003)
    assert type(training.optimizer) is without_compiler(torch.optim.Adam)
    assert [type(group["lr"]) for group in training.optimizer.param_groups] == [float]
    assert training.optimizer.param_groups[0]["lr"] == 0.003


OWN = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.05),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.05),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.05, momentum=0.8),
}


@pytest.mark.parametrize("name", OWN)
def test_a_task_by_torchs_own_optimizer_on_the_same_batches(name):
    fields = {"method": "finetune", "model": "tiny-linear", "optimizer": name, "lr": 0.01, "weight_decay": 0.05}
    if name == "sgd":
        fields["momentum"] = 0.8
    training = make_training(tasks=2, epochs=2, **fields)
    batches = []
    loss = training.method.loss

    def record(batch, logits):
        batches.append((batch.x.clone(), batch.y.clone()))
        return loss(batch, logits)

    training.method.loss = record
    training.run()
    model = build_model(training.spec, (1, 4, 4), 6)
    optimizer = OWN[name](model.parameters())
    for x, y in batches:
        optimizer.zero_grad()
        logits = model(x)
        (logits.logsumexp(dim=1) - logits[torch.arange(len(y)), y]).mean().backward()
        optimizer.step()
    assert len(batches) == 2 * 2 * 8  # 120 examples in batches of 16, the last of 8; the state is not reset in between
    for mine, found in zip(model.parameters(), training.model.parameters(), strict=True):
        assert torch.allclose(mine, found, atol=1e-5)


@pytest.mark.parametrize("name", OWN)
def test_without_the_compiler_it_is_torchs_own_to_the_bit(name):
    """Through steps, a new group, and its state taken and given back."""
    kind = type(OWN[name]([torch.nn.Parameter(torch.zeros(1))]))
    found = []
    for made in (kind, without_compiler(kind)):
        parameters = [torch.nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(2)]
        optimizer = made(parameters[:1], lr=0.01, weight_decay=0.05, fused=True)
        optimizer.add_param_group({"params": parameters[1:], "lr": 0.1})
        for number in range(4):
            if number == 2:
                state, optimizer = optimizer.state_dict(), made([{"params": [p]} for p in parameters], fused=True)
                optimizer.load_state_dict(copy.deepcopy(state))
            optimizer.zero_grad()
            assert [p.grad for p in parameters] == [None, None]
            sum((p - 3).pow(4).sum() for p in parameters).backward()
            optimizer.step()
        found.append((torch.stack([p.detach() for p in parameters]), str(optimizer.state_dict())))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert without_compiler(kind) is without_compiler(kind)


def test_on_a_cpu_the_compiler_is_not_loaded():
    """It would double the time that a process takes to start."""
    code = """
import sys
from tfcsr import METHODS, run
from tfcsr.testing import make_spec
for method in METHODS.names():
    for fields in ({"optimizer": "sgd"}, {"optimizer": "adamw", "model": "cnn", "augment": "crop-flip"}):
        run(make_spec(method=method, epochs=1, max_per_class=12, device="cpu", **fields))
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_optimizer_is_what_it_is_called():
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    outcomes = set()
    for name, kind in kinds.items():
        training = trained(method="er", optimizer=name, weight_decay=0.01, epochs=1)
        assert type(training.optimizer) is without_compiler(kind)
        assert training.optimizer.param_groups[0]["weight_decay"] == 0.01
        outcomes.add(training.weights_sha256())
    assert len(outcomes) == 3
    assert make_training(method="er", optimizer="sgd").optimizer.param_groups[0]["momentum"] == 0.9


def test_only_what_is_trained_is_given_to_the_optimizer():
    training = make_training(method="er")
    training.model[0].requires_grad_(False)
    optimizer = make_optimizer(training.spec, training.model)
    assert [tuple(p.shape) for p in optimizer.param_groups[0]["params"]] == [(4,), (4,), (6, 64), (6,)]
    training.model.requires_grad_(False)
    with pytest.raises(SpecError, match="no parameter that is trained"):
        make_optimizer(training.spec, training.model)


@pytest.mark.parametrize("optimizer", OWN)
def test_weight_decay_shrinks_the_weights(optimizer):
    def norm(decay):
        training = trained(method="er", optimizer=optimizer, lr=0.01, weight_decay=decay)
        return training.model[4].weight.norm().item()

    assert norm(0.5) < 0.9 * norm(0.0)


def test_adamw_decays_apart_from_the_gradient():
    """Where the gradient is 0, a step of adamw is the decay alone; adam's divides it by its own size."""
    for name, expected in (("adamw", 1 - 0.1 * 0.5), ("adam", 1 - 0.1)):
        weight = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.ones_(weight.weight)
        optimizer = make_optimizer(make_spec(method="er", optimizer=name, lr=0.1, weight_decay=0.5), weight)
        weight.weight.grad = torch.zeros(1, 1)
        optimizer.step()
        assert weight.weight.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_momentum_is_sgds(optimizer):
    with pytest.raises(SpecError, match=rf"momentum 0\.5 is sgd's: {optimizer} has moments of its own"):
        make_spec(optimizer=optimizer, momentum=0.5)
    assert make_spec(optimizer="sgd", momentum=0.5).momentum == 0.5


SCHEDULED = {"lr": 0.01, "lr_schedule": "cosine", "warmup_epochs": 1.5, "batch_size": 24}


@pytest.mark.parametrize("optimizer", OWN)
@pytest.mark.parametrize("method", ["er", "derpp"])
def test_captured_and_plain_steps_agree_to_the_bit(method, optimizer):
    fields = {"method": method, "optimizer": optimizer, **SCHEDULED}
    recorder = Recorder()
    training = captured(recorder, **fields)
    training.run()
    assert recorder.replayed > training.optimizer_steps / 2
    assert training.weights_sha256() == trained(**fields).weights_sha256()


def test_schedule_and_warm_up_both_reach_the_weights():
    runs = [SCHEDULED, SCHEDULED | {"lr_schedule": "constant"}, SCHEDULED | {"warmup_epochs": 0}]
    assert len({trained(method="finetune", **fields).weights_sha256() for fields in runs}) == 3


def test_a_recorded_step_reads_its_rate_from_the_rows():
    """Epochs of one shape share a recording, and every epoch has other rates."""
    training = captured(Recorder(), method="finetune", **SCHEDULED)
    training.run()
    (program,) = [program for shape, program in training.steps.programs.items() if shape == (24, 0)]
    # The last epoch of four has four steps, three of them of 24.
    assert program.rows.rates.tolist() == pytest.approx(rates(training.spec, 3, 4, 4, 4).tolist()[:3])


class Stopped(Exception):
    pass


@pytest.mark.parametrize(("task", "epoch"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("optimizer", OWN)
def test_a_stopped_run_goes_on_to_the_same_bits(optimizer, task, epoch):
    fields = {"method": "er", "optimizer": optimizer, "weight_decay": 0.01, **SCHEDULED}
    whole, stopped, resumed = trained(**fields), make_training(**fields), make_training(**fields)
    state: dict[str, object] = {}

    def stop():
        if (stopped.task_number, stopped.epoch) == (task, epoch):
            state.update(copy.deepcopy(stopped.state_dict()))
            raise Stopped

    with pytest.raises(Stopped):
        stopped.run(stop)
    resumed.load_state_dict(state)
    resumed.run()
    assert resumed.weights_sha256() == whole.weights_sha256()
