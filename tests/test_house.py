"""What must stay true of the code as a whole."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tfcsr

ROOT = Path(tfcsr.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# A part imports only from itself and from the parts before it. The registries of a package (its __init__) come first:
# they know names, not code.
FLOORS = [
    ["errors", "files", "garbage", "late"],
    ["plugins"],
    ["registry", "options", "fingerprint"],
    ["generators", "processes"],
    ["data"],
    ["models"],
    ["buffer"],
    ["recall"],
    ["spec"],
    ["methods"],
    ["metrics"],
    ["training"],
    ["experiments", "engines"],
    ["paper", "beyond", "scenarios"],
    ["testing"],
    ["reporting"],
    ["learner"],
    ["commands"],
    ["cli", "__main__"],
]
FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}
REGISTRIES = {"tfcsr.methods", "tfcsr.models", "tfcsr.data.benchmarks", "tfcsr.buffer.policies"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_data_flows_one_way(path):
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part == "__init__" or path.name == "__init__.py":
        return
    for module in imports(path):
        if module.startswith("tfcsr.") and module not in REGISTRIES:
            assert FLOOR[module.split(".")[1]] <= FLOOR[part], f"{path.name} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pickle_and_no_eval(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not imports(path) & {"pickle", "dill", "shelve", "marshal", "joblib", "cloudpickle"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "torch.load", "torch.save", "numpy.load"), called
            if called == "np.load":  # which reads pickles unless it is told not to
                assert "allow_pickle=False" in [ast.unparse(keyword) for keyword in node.keywords], path


def test_no_rooms_for_odds_and_ends():
    assert not {path.stem for path in FILES} & {"utils", "util", "helpers", "common", "misc"}


def test_the_loop_does_not_print():
    for path in FILES:
        where = path.relative_to(ROOT)
        if where.parts[0] not in ("cli.py", "commands.py", "reporting") and where.parts != ("learner", "commands.py"):
            calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
            assert not any(ast.unparse(call.func) == "print" for call in calls), path


@pytest.mark.parametrize(
    "code",
    [
        "import tfcsr",
        "from tfcsr import RunSpec; RunSpec(benchmark='split-cifar100', method='mgp')",
        "from tfcsr.cli import _parser; _parser().format_help()",
    ],
)
def test_what_is_slow_is_not_imported_before_it_is_needed(code):
    late = {"torch", "sklearn", "matplotlib", "plotly", "jinja2", "starlette", "uvicorn"}
    check = f"{code}\nimport sys; sys.exit(bool({late} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_everything_promised_is_there():
    for name in tfcsr.__all__:
        assert getattr(tfcsr, name) is not None
    with pytest.raises(AttributeError, match="nope"):
        tfcsr.nope  # noqa: B018
