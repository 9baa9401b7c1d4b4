import importlib.util
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import tfcsr
from tfcsr.errors import SpecError
from tfcsr.models import MODELS
from tfcsr.models.head import named_head, trace_head

_library = torch.library.Library("torchvision", "FRAGMENT")


def _timm():
    """timm, which imports torchvision. Beside a CPU build of torch the usual torchvision's compiled operators are
    missing, and its import stumbles over two of them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pytest.importorskip("timm")
        except RuntimeError:
            for name in [name for name in sys.modules if name.partition(".")[0] in ("torchvision", "timm")]:
                del sys.modules[name]
            for name in ("nms", "qnms"):
                _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            return pytest.importorskip("timm")


@pytest.fixture(scope="module")
def timm():
    return _timm()


@pytest.mark.parametrize(("name", "shape"), [("test_resnet", (1, 8, 8)), ("test_vit", (3, 32, 48))])
def test_a_model_is_made_for_the_input_and_the_classes(timm, name, shape):
    model = MODELS.get(f"timm:{name}")(shape, 7)
    x = torch.randn(3, *shape)
    assert model(x).shape == (3, 7)
    assert named_head(model, trace_head(model, x)).out_features == 7


def test_a_run_trains_one(timm):
    spec = tfcsr.RunSpec(benchmark="split-digits", model="timm:test_resnet", epochs=1, max_per_class=8)
    assert spec.pretrained is False
    result = tfcsr.run(spec)
    assert result.spec["model"] == "timm:test_resnet"
    assert len(result.accuracy_matrix) == 5


def test_pretrained_is_passed_on(timm, monkeypatch):
    asked = []

    def create(name, **wanted):
        asked.append((name, wanted))
        if "img_size" in wanted:
            raise TypeError("__init__() got an unexpected keyword argument 'img_size'")
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 5, wanted["num_classes"]))

    monkeypatch.setattr(timm, "create_model", create)
    MODELS.get("timm:test_resnet")((3, 4, 5), 2, pretrained=True)
    wanted = {"pretrained": True, "num_classes": 2, "in_chans": 3}
    assert asked == [("test_resnet", {**wanted, "img_size": (4, 5)}), ("test_resnet", wanted)]


def test_what_timm_cannot_do_is_told_in_one_line(timm, monkeypatch):
    with pytest.raises(SpecError, match=r"timm has no model 'resnt18': the closest are timm:resnet18, timm:.*, timm:"):
        MODELS.get("timm:resnt18")
    with pytest.raises(SpecError, match=r"timm:test_vit cannot be made for inputs of 1x8x8: .*patch size"):
        MODELS.get("timm:test_vit")((1, 8, 8), 5)

    def offline(name, **wanted):
        raise OSError("no route\nto the hub")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(
        SpecError, match="with pretrained weights: no route; use another model or pretrained false"
    ) as e:
        MODELS.get("timm:test_resnet")((3, 8, 8), 5, pretrained=True)
    assert "\n" not in str(e.value)


def test_without_timm_it_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SpecError, match=r"model timm:resnet18 needs timm: pip install 'tfcsr\[timm\]'"):
        MODELS.get("timm:resnet18")


def test_what_timm_stumbles_over_is_told(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    broken = tmp_path / "timm.py"
    for code, message in (
        ("raise RuntimeError('operator is gone')", "which cannot be imported: operator is gone; install it anew"),
        ("import no_such_vision", "needs no_such_vision, which timm does not find"),
    ):
        broken.write_text(code)
        importlib.invalidate_caches()
        with pytest.raises(SpecError, match=message):
            MODELS.get("timm:resnet18")


def test_a_spec_takes_neither_torch_nor_timm():
    code = (
        "import sys, tfcsr; spec = tfcsr.RunSpec(model='timm:nope', pretrained=True); "
        "sys.exit(bool({'torch', 'timm', 'torchvision'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "timm:NAME" in MODELS.forms()
    assert "timm" not in MODELS.names()
    with pytest.raises(SpecError, match="pretrained"):
        tfcsr.RunSpec(model="cnn", pretrained=True)
