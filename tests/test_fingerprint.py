"""Of code and data: what makes a difference, and what makes none."""

import functools
import importlib
import io
import json
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import tfcsr
from tfcsr import BENCHMARKS, Benchmark, Dataset, RunSpec, fingerprint
from tfcsr.buffer.policies import POLICIES
from tfcsr.data import fingerprint as kept
from tfcsr.experiments.origin import origin
from tfcsr.fingerprint import of_arrays, of_code

SOURCE = str(Path(tfcsr.__file__).parents[1])


def made(text, name="f"):
    """What a module of this text calls so; without a file."""
    module = types.ModuleType("written_for_a_test")
    exec(text, vars(module))
    return vars(module)[name]


def of(text, name="f"):
    return of_code(made(text, name))


CLASS = """
class Base:
    rate = 2

    def scale(self, x):
        return x * self.rate


class f(Base):
    weight = 0.01
    names = ["a", "b"]

    def step(self, x, *, by=3):
        return helper(x) * by + self.scale(x) + self.inner.__name__.count("x")

    class inner:
        deep = 5

    @staticmethod
    def fixed():
        return 7

    @classmethod
    def kind(cls):
        return "kind"

    @property
    def half(self):
        return self.weight / 2


def helper(x):
    return x + LIMIT


LIMIT = 10
"""


@pytest.mark.parametrize(
    "change",
    [
        ("weight = 0.01", "weight = 1000"),
        ('["a", "b"]', '["a", "c"]'),
        ("by=3", "by=4"),
        ("x * self.rate", "x / self.rate"),
        ("rate = 2", "rate = 3"),
        ("x + LIMIT", "x - LIMIT"),
        ("LIMIT = 10", "LIMIT = 11"),
        ("deep = 5", "deep = 6"),
        ("return 7", "return 8"),
        ('"kind"', '"other"'),
        ("weight / 2", "weight / 4"),
        ("class f(Base)", "class f"),
        ("def fixed", "def other"),
    ],
    ids=lambda change: change[0],
)
def test_what_a_class_does_counts(change):
    assert change[0] in CLASS
    assert of(CLASS) != of(CLASS.replace(*change))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x): return x + 1", "def f(x): return x - 1"),
        ("def f(x): return x + 1", "def f(x): return x + 1.0"),
        ("def f(x, y=1): return x + y", "def f(x, y=2): return x + y"),
        ("def f(x, *, y=1): return x + y", "def f(x, *, y=2): return x + y"),
        ("K = 1\ndef f(x): return x + K", "K = 2\ndef f(x): return x + K"),
        ("K = {'a': [1]}\ndef f(x): return K", "K = {'a': [2]}\ndef f(x): return K"),
        ("def g(x): return 1\ndef f(x): return g(x)", "def g(x): return 2\ndef f(x): return g(x)"),
        (
            "K = 1\ndef h(): return K\ndef g(x): return h()\ndef f(x): return g(x)",
            "K = 2\ndef h(): return K\ndef g(x): return h()\ndef f(x): return g(x)",
        ),
        ("def f(x): return [y + 1 for y in x]", "def f(x): return [y + 2 for y in x]"),
        ("K = 1\ndef f(x): return [y + K for y in x]", "K = 2\ndef f(x): return [y + K for y in x]"),
        ("f = lambda x: x in {1, 2}", "f = lambda x: x in {1, 3}"),
        ("f = lambda x: x.min()", "f = lambda x: x.max()"),
        ("import functools\nf = functools.partial(max, 1)", "import functools\nf = functools.partial(max, 2)"),
        ("import math\ndef f(x): return math.sin(x)", "import math\ndef f(x): return math.cos(x)"),
        ("import re\nK = re.compile('a')\ndef f(x): return K", "import re\nK = re.compile('b')\ndef f(x): return K"),
    ],
)
def test_what_a_function_does_counts(one, other):
    assert of(one) == of(one)
    assert of(one) != of(other)


def closing(value):
    def f(x):
        return x, value

    return f


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        ("1", 1),
        (None, 0),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (np.arange(4), np.arange(4) + 1),
        (np.arange(4), np.arange(4).astype(np.int32)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (np.array(1.0), np.array(2.0)),
        (np.float32(1), np.float32(2)),
        (torch.arange(4), torch.arange(4) + 1),
        (torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)),
        (torch.zeros(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
        (np.array(["a", None], dtype=object), np.array(["b", None], dtype=object)),
        (lambda x: x + 1, lambda x: x + 2),
        (functools.partial(int, base=2), functools.partial(int, base=3)),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
        (Path("a"), Path("b")),
        (slice(1), slice(2)),
        (np.dtype("int8"), np.dtype("int16")),
        (torch.float32, torch.float64),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_function_has_caught_counts(one, other):
    assert of_code(closing(one)) == of_code(closing(one))
    assert of_code(closing(one)) != of_code(closing(other))


class Loader:
    def __init__(self, seed):
        self.seed = seed

    def load(self, data_dir):
        return self.seed

    def __call__(self, data_dir):
        return self.seed


def test_the_object_of_a_bound_method_counts():
    assert of_code(Loader(1)) != of_code(Loader(2))
    assert of_code(Loader(1).load) == of_code(Loader(1).load)
    assert of_code(Loader(1).load) != of_code(Loader(2).load)


def test_equal_tensors_are_equal():
    assert of_code(closing(torch.arange(4))) == of_code(closing(torch.arange(8)[:4]))


@pytest.mark.parametrize(
    "other",
    [
        CLASS.replace("\n\n", "\n\n\n\n"),
        "# says nothing\n\n" + CLASS.replace("LIMIT = 10", "LIMIT = 10  # ten"),
        "UNRELATED = 3\ndef unrelated(): return 5\n" + CLASS + "\nMORE = 4\n",
        CLASS.replace("LIMIT = 10\n", "").replace("\nclass Base", "LIMIT = 10\n\n\nclass Base", 1),
        CLASS.replace("class f(Base):", 'class f(Base):\n    """What it is for."""\n'),
        CLASS.replace("    weight = 0.01\n", "").replace(
            "    class inner", "    weight = 0.01  # lower\n\n    class inner"
        ),
    ],
    ids=["empty lines", "comments", "unrelated", "order of globals", "docstring of the class", "order of attributes"],
)
def test_what_says_nothing_does_not_count(other):
    assert other != CLASS
    assert of(other) == of(CLASS)


def test_docstrings_end():
    assert len(of('def f(x):\n    """What it is for."""\n    return x')) == fingerprint.LETTERS


def test_a_function_that_has_run_often_is_the_same():
    """Python rewrites the code of one that is in use."""
    function = made("def f(x):\n    total = 0\n    for i in range(x):\n        total += i\n    return total")
    before = of_code(function)
    for _ in range(200):
        function(50)
    assert of_code(function) == before


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return f(x - 1) if x else 0",
        "def f(x): return g(x)\ndef g(x): return f(x)",
        "class f:\n    def again(self): return f()",
        "K = []\nK.append(K)\ndef f(x): return K",
        "class Node: pass\nn = Node()\nn.own = n\ndef f(x): return n",
        "import sys\ndef f(x): return sys.modules",
    ],
)
def test_what_leads_back_to_itself_ends(text):
    assert of(text) == of(text)


def test_a_deep_chain_ends():
    value = []
    for _ in range(300):
        value = [value]
    assert len(of_code(closing(value))) == fingerprint.LETTERS


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Modules of these texts, as if anew: the last one."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = set()

    def write(**texts):
        for name in names:
            sys.modules.pop(name, None)
        for name, text in texts.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        names.update(name.replace("__", ".") for name in texts)
        names.update(name.partition("__")[0] for name in texts)
        fingerprint._installed.cache_clear()
        importlib.invalidate_caches()
        return importlib.import_module(list(texts)[-1].replace("__", "."))

    yield write
    for name in names:
        sys.modules.pop(name, None)
    fingerprint._installed.cache_clear()


@pytest.mark.parametrize(
    "use",
    [
        "import fp_helper\ndef f(x): return fp_helper.loss(x)",
        "import fp_helper as h\ndef f(x): return h.loss(x)",
        "from fp_helper import loss\ndef f(x): return loss(x)",
        "from fp_helper import loss as l\ndef f(x): return [l(y) for y in x]",
        "import fp_helper\nclass f(fp_helper.Base): pass",
        "import fp_helper\ndef f(x):\n    return [fp_helper.loss(y) for y in x]",
        "def f(x):\n    from fp_helper import loss\n    return loss(x)",
        "def f(x):\n    import fp_helper\n    return fp_helper.loss(x)",
    ],
)
def test_a_helper_of_another_file_counts(imported, use):
    helper = "K = 1\ndef loss(x): return x + K\nclass Base:\n    def g(self): return K\n"
    one = of_code(imported(fp_helper=helper, fp_user=use).f)
    assert of_code(imported(fp_helper=helper + "# nothing\n", fp_user=use).f) == one
    assert of_code(imported(fp_helper=helper.replace("K = 1", "K = 2"), fp_user=use).f) != one


def test_a_helper_of_a_package_counts(imported):
    use = "import fp_lab.helper\ndef f(x): return fp_lab.helper.loss(x)"
    texts = {"fp_lab____init__": "", "fp_lab__helper": "def loss(x): return 1", "fp_user2": use}
    one = of_code(imported(**texts).f)
    assert of_code(imported(**texts | {"fp_lab__helper": "def loss(x): return 2"}).f) != one


def test_of_a_library_its_name_counts(imported):
    """What the code of numpy is, its version says."""
    assert of("import numpy as np\ndef f(x): return np.sum(x)") != of("import numpy as np\ndef f(x): return np.mean(x)")
    assert of("from numpy import sum as g\ndef f(x): return g(x)") != of(
        "from numpy import mean as g\ndef f(x): return g(x)"
    )


BENCHMARK = """
from tfcsr import Benchmark
SCALE = 1
f = Benchmark(load=lambda data_dir: SCALE, classes=2, tasks=1, defaults={"epochs": 3})
"""


def test_of_a_benchmark_its_function_and_its_numbers_count():
    for change in (("SCALE = 1", "SCALE = 2"), ("classes=2", "classes=3"), ('"epochs": 3', '"epochs": 4')):
        assert of(BENCHMARK) != of(BENCHMARK.replace(*change)), change
    assert of(BENCHMARK) == of("# nothing\n" + BENCHMARK)


@pytest.fixture
def registered():
    """The code that a run on a benchmark of this text has for its origin."""

    def code(folder, text):
        sys.modules.pop("fp_bench", None)
        fingerprint._installed.cache_clear()
        (folder / "fp_bench.py").write_text(text)
        importlib.invalidate_caches()
        importlib.import_module("fp_bench")
        return origin(RunSpec(benchmark="fp-bench", method="er"), "data")["code"]

    yield code
    BENCHMARKS.remove("fp-bench")
    sys.modules.pop("fp_bench", None)
    fingerprint._installed.cache_clear()


REGISTERED = BENCHMARK.replace("import Benchmark", "import BENCHMARKS, Benchmark") + 'BENCHMARKS.add("fp-bench")(f)\n'


@pytest.mark.parametrize("place", ["project", "site-packages"])
def test_a_benchmark_is_looked_into_wherever_its_package_is(registered, tmp_path, monkeypatch, place):
    """Its class is ours, but the function it loads with is the package's own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / place
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    one = registered(folder, REGISTERED)
    assert set(one) == {"benchmark fp-bench"}
    assert registered(folder, f"# nothing\n{REGISTERED}") == one
    assert registered(folder, REGISTERED.replace("SCALE = 1", "SCALE = 2")) != one


def test_our_own_code_is_not_looked_into(registered, tmp_path, monkeypatch):
    """Where that changes, the version of training says so, and not everybody's benchmark."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    before = registered(tmp_path, REGISTERED)
    monkeypatch.setattr(Benchmark, "dataset", lambda self, data_dir, **options: None)
    assert registered(tmp_path, REGISTERED) == before


def test_what_is_registered_beside_does_not_count():
    text = "from tfcsr.methods.er import ExperienceReplay as ER\nclass f(ER):\n    options = ER.options"
    before = of(text)
    POLICIES.get("herding")
    POLICIES.add("fp-policy")(POLICIES.get("reservoir"))
    try:
        assert of(text) == before
    finally:
        POLICIES.remove("fp-policy")


def test_a_path_that_was_used_is_the_same_path():
    """It remembers its text and its hash."""
    path = Path("a", "b")
    before = of_code(closing(path))
    assert {path: str(path)}
    assert path.name
    assert list(path.parents)
    assert of_code(closing(path)) == before


LOGGER = """
import logging
import sys
from tfcsr.fingerprint import of_code

logging.basicConfig(stream=sys.stderr)
LOGGER = logging.getLogger("lab")


def f(x):
    LOGGER.info(x)


before = of_code(f)
logging.getLogger("another").setLevel(logging.INFO)
f(1)
assert of_code(f) == before
sys.stderr.write("heard")
"""


def test_a_logger_is_no_harm():
    """It knows every other one and, through its handlers, the standard streams."""
    env = os.environ | {"PYTHONPATH": SOURCE}
    ended = subprocess.run([sys.executable, "-c", LOGGER], env=env, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "heard")


def test_a_stream_is_left_alone():
    under = io.BytesIO()
    stream = io.TextIOWrapper(under, encoding="utf-8")
    of_code(closing(stream))
    stream.write("still mine")
    stream.flush()
    assert under.getvalue() == b"still mine"


IN_A_PROCESS = """
import sys
from tfcsr.fingerprint import of_code
import fp_a, fp_b, fp_c, fp_d
from pathlib import Path

NAMES = {"x", "y", "z"}
TABLE = {"k": frozenset("abc")}
HERE = Path("/somewhere")


class Base:
    def go(self, x):
        hash(HERE)
        return fp_a.f(x) + fp_b.f(x) + fp_c.f(x) + fp_d.f(x), x in {"p", "q", "r"}, NAMES, TABLE, HERE


Base().go(1)
print(of_code(Base), of_code(lambda: NAMES), of_code(lambda x: fp_a.f(x) + fp_b.f(x) + fp_c.f(x)))
"""


def test_it_is_the_same_in_every_process(tmp_path):
    """Without a source file too; and whether or not Python had compiled the modules before."""
    for number, name in enumerate(("fp_a", "fp_b", "fp_c", "fp_d")):
        (tmp_path / f"{name}.py").write_text(f"PAIR = ({number}, 1)\ndef f(x): return x + {number} + len((1, 2, x))\n")
    said = set()
    for seed in (1, 2, 3, 4):
        env = os.environ | {"PYTHONPATH": os.pathsep.join([SOURCE, str(tmp_path)]), "PYTHONHASHSEED": str(seed)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        said.add(subprocess.run([sys.executable, "-c", IN_A_PROCESS], env=env, check=True, capture_output=True).stdout)
    assert len(said) == 1, said


def test_content_shape_and_type_of_arrays_count():
    base = np.arange(12, dtype=np.int16)
    others = [base + 1, base.reshape(3, 4), base.reshape(4, 3), base.view(np.uint16), base.astype(np.int32), base[:11]]
    found = {of_arrays([array]) for array in (base, *others)}
    assert len(found) == 7
    assert of_arrays([base]) == of_arrays([base.copy()]) == of_arrays([np.arange(24, dtype=np.int16)[:12]])
    assert of_arrays([np.arange(24, dtype=np.int16)[::2]]) == of_arrays([base * 2])


def test_where_one_array_ends_and_the_next_begins_counts():
    a, b = np.arange(4), np.arange(4, 8)
    assert len({of_arrays(arrays) for arrays in ([a, b], [b, a], [np.concatenate([a, b])], [a], [])}) == 5


def test_empty_and_single_values_are_arrays_too():
    assert of_arrays([np.zeros((0, 3))]) != of_arrays([np.zeros((3, 0))])
    assert of_arrays([np.array(1)]) != of_arrays([np.array(2)])


def test_large_arrays_are_read_in_pieces_whatever_piece_is_first(monkeypatch):
    array = np.random.default_rng(0).integers(0, 256, 10_000, dtype=np.uint8)
    monkeypatch.setattr(fingerprint, "CHUNK", 64)
    quick = of_arrays([array])
    real, threads = fingerprint.hashlib.sha256, set()

    def slow(*data):
        if data:
            threads.add(threading.get_ident())
            time.sleep(0.005 * (int(data[0][0]) % 4 == 0))
        return real(*data)

    monkeypatch.setattr(fingerprint.hashlib, "sha256", slow)
    assert of_arrays([array]) == quick
    assert threads
    for at in (0, 63, 64, 9_999):
        other = array.copy()
        other[at] ^= 1
        monkeypatch.setattr(fingerprint.hashlib, "sha256", real)
        assert of_arrays([other]) != quick
    other = np.concatenate([array[64:128], array[:64], array[128:]])
    assert of_arrays([other]) != quick


def dataset(*files, **changes):
    x, y = np.arange(32, dtype=np.uint8).reshape(8, 1, 2, 2), np.arange(8) % 2
    values = {"name": "own", "train_x": x, "train_y": y, "test_x": x, "test_y": y, "class_names": ("a", "b")}
    values |= {"scale": 255.0, "mean": (0.1,), "std": (0.2,), "files": files}
    return Dataset(**values | changes)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.bin"
    path.write_bytes(b"data")
    return path


def beside(file):
    return file.with_name(".own.fingerprint.json")


@pytest.fixture
def never_hashed(monkeypatch):
    def forbid():
        monkeypatch.setattr(fingerprint, "of_arrays", lambda arrays: pytest.fail("it was hashed again"))

    return forbid


def test_everything_that_is_trained_on_counts():
    one = dataset()
    x, y = one.train_x, one.train_y
    changes = [
        {"train_x": x[::-1]},
        {"train_y": y[::-1]},
        {"test_x": x[::-1]},
        {"test_y": y[::-1]},
        {"scale": 128.0},
        {"mean": (0.2,)},
        {"std": (0.3,)},
    ]
    assert len({kept.of_dataset(dataset(**change)) for change in ({}, *changes)}) == 8
    assert kept.of_dataset(one) == kept.of_dataset(dataset(name="other", class_names=("c", "d")))


def test_it_is_kept_beside_the_files_and_not_made_again(file, never_hashed):
    found = kept.of_dataset(dataset(file))
    assert json.loads(beside(file).read_text())["fingerprint"] == found
    assert {path.name for path in file.parent.iterdir()} == {file.name, beside(file).name}
    never_hashed()
    assert kept.of_dataset(dataset(file)) == found


def test_a_changed_file_is_looked_at_again(file):
    found = kept.of_dataset(dataset(file))
    other = dataset(file, train_y=1 - dataset().train_y)
    assert kept.of_dataset(other) == found, "the files are as they were"
    file.write_bytes(b"more data")
    assert kept.of_dataset(other) != found
    assert json.loads(beside(file).read_text())["fingerprint"] == kept.of_dataset(dataset(train_y=other.train_y))


def test_a_file_of_the_same_size_and_another_time_is_looked_at_again(file):
    found = kept.of_dataset(dataset(file))
    os.utime(file, ns=(1, 1))
    assert kept.of_dataset(dataset(file, train_y=1 - dataset().train_y)) != found


def test_every_file_counts(file, tmp_path):
    second = tmp_path / "second.bin"
    second.write_bytes(b"labels")
    found = kept.of_dataset(dataset(file, second))
    second.write_bytes(b"other labels")
    assert kept.of_dataset(dataset(file, second, train_y=1 - dataset().train_y)) != found


def test_a_folder_that_cannot_be_written_is_no_error(file, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert kept.of_dataset(dataset(file)) == kept.of_dataset(dataset())
    assert not beside(file).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_no_error(file):
    file.parent.chmod(0o500)
    try:
        assert kept.of_dataset(dataset(file)) == kept.of_dataset(dataset())
    finally:
        file.parent.chmod(0o700)


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"fingerprint": 3}', b'{"files": {}}', b"[" * 100_000]
)
def test_garbage_where_it_is_kept_is_ignored(file, garbage):
    expected = kept.of_dataset(dataset())
    beside(file).write_bytes(garbage)
    assert kept.of_dataset(dataset(file)) == expected
    assert json.loads(beside(file).read_text())["fingerprint"] == expected


def test_a_folder_where_it_would_be_kept_is_no_error(file):
    beside(file).mkdir()
    assert kept.of_dataset(dataset(file)) == kept.of_dataset(dataset())
