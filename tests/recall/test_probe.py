import pytest
import torch
from torch import nn

from tfcsr.recall.probe import probe


class Table(nn.Module):
    """Gives example i its i-th row of logits."""

    def __init__(self, logits: list[list[float]]) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits[x]


def test_recall_is_masked_to_the_classes_of_the_buffer():
    # Class 3 would win every time, but the buffer holds only 0 and 2.
    model = Table([[1, 0, 0, 9], [0, 5, 1, 9], [1, 5, 0, 9], [0, 0, 1, 9]])
    found = probe(model, torch.arange(4), torch.tensor([0, 2, 2, 2]), torch.tensor([0, 2]))
    assert found.overall == 75.0
    assert found.per_class == {0: 100.0, 2: pytest.approx(200 / 3)}


@pytest.mark.parametrize("training", [True, False])
def test_eval_probe_leaves_no_trace(training):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).train(training)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    probe(model, torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(8).long(), torch.arange(3))
    assert model.training is training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_train_mode_moves_the_statistics_and_nothing_else():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    probe(model, x, torch.zeros(8).long(), torch.arange(3), train_mode=True)
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(before[name], tensor)}
    assert moved == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert not model.training


def test_a_model_that_fails_is_left_in_its_mode():
    model = nn.Linear(3, 2).train()
    with pytest.raises(RuntimeError):
        probe(model, torch.zeros(4, 5), torch.zeros(4).long(), torch.arange(2))
    assert model.training
