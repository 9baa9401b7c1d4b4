"""One learner on several processes. Most of it with threads that pretend to be processes; the rest with torchrun."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tfcsr
from tests.conftest import make_spec, make_training
from tests.pretended import Threads
from tfcsr import processes
from tfcsr.cli import main
from tfcsr.errors import ProcessError, SpecError
from tfcsr.experiments.machine import on_this_machine
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Stop
from tfcsr.files import read_json
from tfcsr.generators import Generators
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.models.batch_norm import Synchronised2d, synchronise
from tfcsr.processes import FEWEST_ROWS, Processes
from tfcsr.training.model_file import read_model
from tfcsr.training.sharing import shared

ROOT = Path(__file__).parents[1]
SHIPPED = [name for name in METHODS.names() if METHODS.ships(name)]


@pytest.fixture
def threads(monkeypatch):
    return Threads(monkeypatch)


def trained_by(threads, count, listeners=(), **fields):
    trainings = threads.make(count, lambda: make_training(listeners, **fields))
    threads.run([training.run for training in trainings])
    return trainings


def alone(**fields):
    training = make_training(**fields)
    training.run()
    return training


def require_alike(one, other, tolerance=1e-4):
    """Equal but for the last bits of the weights; what is kept and what was asked, to the last."""
    for name, weight in one.model.state_dict().items():
        torch.testing.assert_close(other.model.state_dict()[name], weight, rtol=tolerance, atol=tolerance)
    for name, field in one.learner.buffer.fields.items():
        if field.is_floating_point():
            torch.testing.assert_close(
                other.learner.buffer.fields[name], field, rtol=tolerance, atol=10 * tolerance, equal_nan=True
            )
        else:
            assert torch.equal(other.learner.buffer.fields[name], field), name
    assert other.learner.probes == one.learner.probes
    assert other.accuracy_matrix == one.accuracy_matrix
    assert other.optimizer_steps == one.optimizer_steps
    assert other.samples_seen == one.samples_seen


# Shares


@given(st.integers(0, 200), st.integers(1, 9))
def test_every_row_is_in_one_share_or_in_all(count, several):
    shares = [list(range(count))[Processes(number, several).rows(count)] for number in range(several)]
    if count < FEWEST_ROWS * several:
        assert shares == [list(range(count))] * several
    else:
        assert sorted(row for share in shares for row in share) == list(range(count))
        sizes = {len(share) for share in shares}
        assert min(sizes) >= FEWEST_ROWS
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("count", "several"), [(4, 2), (5, 2), (6, 3), (7, 3), (8, 3), (64, 5)])
def test_shares_come_together_in_the_order_of_the_examples(threads, count, several):
    x = torch.randn(count, 3)
    threads.make(several, lambda: None)

    def work():
        here = processes.here()
        return here.whole(x[here.rows(count)], count)

    for found in threads.run([work] * several):
        assert torch.equal(found, x)


@pytest.mark.parametrize("count", [3, 5, 6, 7, 32])
@pytest.mark.parametrize("several", [2, 3])
def test_the_mean_of_all_gradients_is_that_of_one_process(threads, count, several):
    """Of a loss through the network's answers, one that asks the network by itself, and a penalty."""
    x, y = torch.randn(count, 4), torch.randint(3, (count,))

    def step(network):
        ask = shared(lambda network, x: network(x))
        logits = ask(network, x)
        new = max(1, count // 3)
        F = nn.functional
        loss = F.cross_entropy(logits[:new], y[:new]) + 2 * F.cross_entropy(logits[new:], y[new:])
        loss = loss + network(x).square().mean() + network.weight.square().sum()
        loss.backward()
        processes.here().average(list(network.parameters()))
        return [p.grad for p in network.parameters()]

    def network():
        torch.manual_seed(0)
        return nn.Linear(4, 3)

    expected = step(network())
    networks = threads.make(several, network)
    found = threads.run([lambda network=network: step(network) for network in networks])
    for gradients in found:
        for mine, first, wanted in zip(gradients, found[0], expected, strict=True):
            assert torch.equal(mine, first)
            torch.testing.assert_close(mine, wanted)


def test_a_gradient_that_only_some_have_counts_as_0_elsewhere(threads):
    threads.make(3, lambda: None)

    def work():
        number = processes.here().number
        parameters = [nn.Parameter(torch.zeros(2)) for _ in range(3)]
        parameters[0].grad = torch.full((2,), 1.0 + number)
        if number == 1:
            parameters[1].grad = torch.full((2,), 3.0)
        processes.here().average(parameters)
        return [None if p.grad is None else p.grad.tolist() for p in parameters]

    assert threads.run([work] * 3) == [[[2.0, 2.0], [1.0, 1.0], None]] * 3


def test_gradients_of_every_type_are_averaged(threads):
    threads.make(2, lambda: None)

    def work():
        number = processes.here().number
        parameters = [nn.Parameter(torch.zeros(2, dtype=t)) for t in (torch.float64, torch.bfloat16, torch.float64)]
        for p in parameters:
            p.grad = torch.full_like(p, 1.0 + number)
        processes.here().average(parameters)
        return [p.grad.tolist() for p in parameters]

    assert threads.run([work] * 2) == [[[1.5, 1.5]] * 3] * 2


def test_all_learn_at_the_same_step_that_somebody_wants_to_stop(threads):
    threads.make(3, lambda: None)

    def work():
        stop, seen = Stop(), []
        for step in range(4):
            if step == 2 and processes.here().number == 1:
                stop.request(signal.SIGINT)
            seen.append(stop.number)
            processes.here().average([nn.Parameter(torch.zeros(1))])
        return [*seen, stop.number]

    assert threads.run([work] * 3) == [[None, None, None, signal.SIGINT, signal.SIGINT]] * 3


def test_what_the_first_says_is_heard_by_all(threads):
    threads.make(3, lambda: None)

    def work():
        here = processes.here()
        return here.told(here.number + 7), here.same(b"ab"), here.same(bytes([here.number]))

    assert threads.run([work] * 3) == [(7, True, False)] * 3


# Training


@pytest.mark.parametrize("method", SHIPPED)
def test_every_method_trains_as_in_one_process(threads, method):
    fields = {"method": method, "model": "cnn", "epochs": 2, "max_per_class": 21, "probe_size": 20}
    one = alone(**fields)
    for other in trained_by(threads, 2, **fields):
        require_alike(one, other)


@pytest.mark.parametrize("method", ["er-ace", "derpp", "ewc", "tfcsr-distill"])
def test_nor_does_it_matter_how_batches_are_cut(threads, method):
    """Three processes, batches of 7 + 6, and an odd last one that is too small to be shared."""
    fields = {"method": method, "model": "cnn", "epochs": 1, "batch_size": 13, "augment": "crop-flip"}
    one = alone(**fields)
    for other in trained_by(threads, 3, **fields):
        require_alike(one, other)


@pytest.mark.parametrize("scenario", ["task", "domain"])
def test_nor_the_scenario(threads, scenario):
    fields = {"method": "lwf", "scenario": scenario, "model": "cnn", "epochs": 2}
    require_alike(alone(**fields), trained_by(threads, 2, **fields)[1])


def test_all_processes_have_the_same_bits(threads):
    trainings = trained_by(threads, 3, method="icarl", model="tiny-bn", epochs=1)
    assert len({training.weights_sha256() for training in trainings}) == 1
    assert len({str(training.learner.buffer.state_dict()) for training in trainings}) == 1
    assert len({str(training.accuracy_matrix) for training in trainings}) == 1


@pytest.mark.parametrize(("method", "count"), [("er", 3), ("tfcsr-distill", 2), ("ewc", 3)])
def test_synchronised_batch_norm_is_that_of_one_process(threads, method, count):
    """With batches of 8 + 8 and, at the end of an epoch, of 3 + 8, which 3 processes share unevenly."""
    fields = {"method": method, "model": "tiny-bn", "epochs": 1, "max_per_class": 35, "batch_size": 16}
    # Before such a layer a bias has no effect and no gradient but rounding errors, which Adam would make steps of.
    fields |= {"optimizer": "sgd", "lr": 0.01, "ewc_lambda": 10}
    one = alone(**fields)
    for other in trained_by(threads, count, sync_batch_norm=True, **fields):
        require_alike(one, other, 1e-3)
    assert isinstance(other.model[1], Synchronised2d)
    apart = trained_by(threads, count, **fields)[0]
    weights = [training.model.state_dict()["1.running_mean"] for training in (one, apart)]
    assert not torch.allclose(*weights, rtol=1e-3)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("affine", [True, False])
def test_synchronised_layers_give_and_learn_what_one_would(threads, momentum, affine):
    x, outer = torch.randn(7, 3, 2, 2) * 3 + 5, torch.randn(7, 3, 2, 2)

    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3, momentum=momentum, affine=affine))

    def take(network):
        for _ in range(2):
            found = shared(lambda network, x: network(x))(network, x)
            (found * outer).sum().backward()
            processes.here().average(list(network.parameters()))
        return [found, *network.state_dict().values(), *(p.grad for p in network.parameters())]

    def synchronised():
        made = network()
        synchronise(made)
        return made

    expected = take(network())
    for found in threads.run([lambda made=made: take(made) for made in threads.make(3, synchronised)]):
        for mine, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


def test_a_strange_kind_of_batch_norm_is_refused():
    class Odd(nn.BatchNorm2d):
        pass

    with pytest.raises(SpecError, match="does not know layer 0, a Odd"):
        synchronise(nn.Sequential(Odd(3)))


def test_dropout_is_another_in_every_process(threads, monkeypatch):
    """That it goes on where it was is for real processes to show: threads share the generator that layers know."""
    begun, plain = [], Generators.anew

    def anew(generators, name, moment):
        plain(generators, name, moment)
        begun.append((processes.here().number, generators[name].get_state().numpy().tobytes()))

    monkeypatch.setattr(Generators, "anew", anew)
    trained_by(threads, 3, method="er", model="tiny-linear", epochs=1)
    # In each of three epochs; process 0 draws as one alone would.
    assert sorted(number for number, _ in begun) == [1, 1, 1, 2, 2, 2]
    assert len({state for _, state in begun}) == 6


class OwnQuestions(Method):
    """Asks the network itself, and charges for its weights: neither knows of processes."""

    def loss(self, batch, logits):
        again = self.learner.model(batch.x.flip(-1))
        return super().loss(batch, logits) + (again - logits).square().mean()

    def penalty(self):
        return 0.01 * sum(p.square().sum() for p in self.parameters())


def test_a_method_of_ones_own_needs_to_know_nothing(threads):
    METHODS.add("own-questions")(OwnQuestions)
    try:
        fields = {"method": "own-questions", "model": "cnn", "epochs": 2}
        require_alike(alone(**fields), trained_by(threads, 2, **fields)[1])
    finally:
        METHODS.remove("own-questions")


def test_processes_that_come_apart_say_so(threads):
    trainings = threads.make(2, lambda: make_training(method="er", epochs=1))
    with torch.no_grad():
        next(trainings[1].model.parameters()).add_(1e-6)
    with pytest.raises(ProcessError, match="the weights of the 2 processes differ in task 1, epoch 0"):
        threads.run([training.run for training in trainings])
    trainings = threads.make(2, lambda: make_training(method="er", epochs=1))
    trainings[1].learner.generators.anew("reservoir", "elsewhere")
    with pytest.raises(ProcessError, match="the memories of the 2 processes differ in task 1"):
        threads.run([training.run for training in trainings])


# The spec


def test_a_run_of_one_process_has_the_name_it_always_had():
    assert "processes" not in make_spec().identity()
    assert "sync_batch_norm" not in make_spec().identity()
    assert on_this_machine(make_spec()).key() == make_spec().key()


def test_processes_that_are_not_there_are_refused():
    with pytest.raises(SpecError, match="processes 2, but here is 1: start it with torchrun --nproc-per-node 2"):
        on_this_machine(make_spec(processes=2))


def test_several_processes_are_part_of_the_spec(threads):
    spec = threads.make(2, lambda: on_this_machine(make_spec(threads=0)))[1]
    assert spec.processes == 2
    assert spec.threads == max(1, len(os.sched_getaffinity(0)) // 2)
    assert spec.key() != make_spec().key()


def test_nonsense_in_the_environment_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(SystemExit):
        main(["list", "methods"])
    assert capsys.readouterr().err.startswith("tfcsr: the environment says WORLD_SIZE 'many', which cannot be")


# With torchrun

# One of each kind: all methods are held above to what one process does. `LONGER` is of another one.
METHODS_TOGETHER = ("er", "derpp", "icarl", "tfcsr-distill", "ewc")
PLAIN = {"epochs": 2, "max_per_class": 21, "batch_size": 16, "device": "cpu", "threads": 1, "checkpoint_every": 1}
QUICK = PLAIN | {"model": "mlp", "hidden": 32}
# With dropout, which every process draws for itself.
LONGER = PLAIN | {"method": "er-ace", "model": "tiny-dropout", "epochs": 5, "max_per_class": 24}
WITH_NORM = PLAIN | {"method": "er", "model": "tiny-bn", "optimizer": "sgd", "lr": 0.01}


def flags(fields):
    given = [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [*given, "--plugin", "tfcsr.testing"]


def torchrun(*words, **options):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def ours(text):
    return [line for line in text.splitlines() if line.startswith("tfcsr: ")]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """All that two real processes do undisturbed, in one start."""
    out = tmp_path_factory.mktemp("together")
    rng = torch.Generator().manual_seed(0)
    for name in ("monday", "tuesday"):
        x = torch.randint(0, 255, (40, 1, 8, 8), generator=rng).numpy().astype(np.uint8)
        y = np.repeat([0, 1] if name == "monday" else [1, 2], 20)
        x[np.arange(40), 0, y] = 255
        np.savez(out / f"{name}.npz", x=x, y=y)
    runs = {method: QUICK | {"method": method} for method in METHODS_TOGETHER}
    runs |= {"longer": LONGER, "norm": WITH_NORM}
    lines = [f"run {' '.join(flags(fields))} --out {out / name}" for name, fields in runs.items()]
    lines[-1] += " --sync-batch-norm"
    learn = f"learn --data {out}/monday.npz --out {out}/model --epochs 2 --model mlp --device cpu --threads 1"
    lines += [learn, f"learn {out}/model --data {out}/tuesday.npz"]
    lines += [lines[0]]  # which is complete
    (out / "commands.txt").write_text("\n".join(lines))
    process = torchrun(str(ROOT / "tests" / "together.py"), str(out / "commands.txt"))
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out, said, errors


@pytest.mark.parametrize("name", [*METHODS_TOGETHER, "norm"])
def test_two_processes_are_as_good_as_one(together, tmp_path, name):
    fields = WITH_NORM if name == "norm" else QUICK | {"method": name}
    expected = tfcsr.run(tfcsr.RunSpec(out=str(tmp_path / "run"), **fields))
    found = Result.from_dict(read_json(together[0] / name / "result.json"))
    assert found.spec["processes"] == 2
    assert found.probes == expected.probes
    assert found.accuracy_matrix == expected.accuracy_matrix
    assert found.optimizer_steps == expected.optimizer_steps
    mine, theirs = (read_model(path / "model.safetensors") for path in (together[0] / name, tmp_path / "run"))
    for weight, wanted in zip(mine.weights.values(), theirs.weights.values(), strict=True):
        torch.testing.assert_close(weight, wanted, rtol=1e-3, atol=1e-4)
    for part in ("x", "y"):
        assert torch.equal(mine.beside["buffer"][part], theirs.beside["buffer"][part])


def test_only_the_first_speaks_and_writes(together):
    out, said, errors = together
    runs = len(METHODS_TOGETHER) + 2
    assert said.count("kept in") == runs + 3
    assert said.count("already complete") == 1
    assert said.count("learned 40 examples of") == 2
    assert ours(errors) == []
    assert not list(out.rglob("*.part"))
    assert not list(out.rglob(".lock"))
    assert not list(out.rglob("checkpoint/*.json")) or (out / "model" / "checkpoint").exists()


def test_a_learner_of_two_processes_is_kept_whole(together):
    learner = tfcsr.Learner.load(together[0] / "model")
    assert learner.classes == [0, 1, 2]
    assert [one.new_classes for one in learner.history] == [(0, 1), (2,)]
    one = tfcsr.Learner(model="mlp", device="cpu", threads=1, epochs=2)
    for name in ("monday", "tuesday"):
        one.learn(together[0] / f"{name}.npz")
    for mine, wanted in zip(learner.model.state_dict().values(), one.model.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-3, atol=1e-4)


def wait_for(path, text, process, seconds=120.0):
    began = time.monotonic()
    while not (path.exists() and text in path.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < seconds
        time.sleep(0.01)


def child(process, rank):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(
        int(pid)
        for pid in children
        if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    )


def test_stopped_killed_and_resumed_to_the_same_bits(together, tmp_path):
    out = tmp_path / "run"
    first = torchrun("-m", "tfcsr", "run", *flags(LONGER), "--out", str(out))
    wait_for(out / "events.jsonl", '"task": 2, "epoch": 1,', first)
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    (line,) = ours(errors)
    assert "stopped after" in line
    assert f"`torchrun --nproc-per-node 2 -m tfcsr resume {out}` goes on" in line
    assert not (out / "result.json").exists()

    second = torchrun("-m", "tfcsr", "resume", str(out), "--plugin", "tfcsr.testing")
    wait_for(out / "events.jsonl", '"task": 4, "epoch": 1,', second)
    os.kill(child(second, 1), signal.SIGKILL)
    _, errors = second.communicate(timeout=60)
    assert second.returncode != 0
    assert len(ours(errors)) <= 1  # torchrun may end the other before it notices
    assert not (out / "result.json").exists()

    third = torchrun("-m", "tfcsr", "resume", str(out), "--plugin", "tfcsr.testing")
    said, errors = third.communicate(timeout=120)
    assert third.returncode == 0, errors
    assert "going on after task" in said
    whole, resumed = (read_json(path / "result.json") for path in (together[0] / "longer", out))
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["accuracy_matrix"] == whole["accuracy_matrix"]
    with pytest.raises(SpecError, match="processes 2, but here is 1"):
        tfcsr.resume(out)


def test_a_mistake_is_told_once(tmp_path):
    process = torchrun("-m", "tfcsr", "learn", "--data", "nowhere.npz", "--device", "cpu", cwd=tmp_path)
    said, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert said == ""
    (line,) = ours(errors)
    assert "nowhere.npz" in line
    assert "exitcode  : 2" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [(["run", "--lr", "-1"], "lr -1 is impossible"), (["compare"], "torchrun is for tfcsr run, learn and resume")],
)
def test_nor_does_it_take_a_meeting_to_tell_it(words, message, monkeypatch, capsys):
    """Before they have met: the first at once, the others if nobody has ended them by then."""
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(processes, "joined", contextlib.nullcontext)
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
        assert len(waited) == int(rank)
