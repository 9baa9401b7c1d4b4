"""The command line: a thin shell over the Python API."""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import tfcsr
from tfcsr import commands, plugins, processes
from tfcsr.data.sources import NAMES as DATASETS
from tfcsr.errors import SpecError, TfcsrError, TfcsrWarning
from tfcsr.methods.base import BUFFER, PROBE, REPLAY, SCHEDULE
from tfcsr.options import Option
from tfcsr.registry import Registry
from tfcsr.spec import (
    EVERY_RUN,
    FIELDS,
    LearnerSpec,
    Parts,
    default_text,
    known_options,
    load_spec_file,
    nearest,
    suggestion,
)

# The groups of `--help`, in their order. A field that is in none of them belongs to the training; the options of a part
# stand where the field stands that chooses the part.
GROUPS: dict[str, tuple[str, ...]] = {
    "method": ("method",),
    "data": (
        *("benchmark", "tasks", "class_order", "max_per_class", "held_out", "evaluate_every", "new_task", "augment"),
        "data_dir",
    ),
    "training": (),
    "memory": tuple(option.name for option in (*BUFFER, *REPLAY)),
    "recall": tuple(option.name for option in (*SCHEDULE, *PROBE)),
    "output": ("checkpoint_every", "checkpoint_seconds", "keep_model", "out"),
}
EXAMPLES = {
    "run": (
        "tfcsr run --method er --benchmark split-digits --epochs 5",
        "tfcsr run --schedule fixed --buffer-capacity 500 --seed 1 --out results/fixed",
    ),
    "compare": (
        "tfcsr compare --methods er,tfcsr --seeds 3",
        "tfcsr compare --benchmark split-mnist --buffer-capacity 500 --out results/mnist",
    ),
    "learn": (
        "tfcsr learn --data photos/monday --size 32 --out model",
        "tfcsr learn model --data photos/tuesday",
    ),
}


class Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)  # examples keep their lines
        super().__init__(**{**settings, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        separator = " " if message.endswith("?") else "; "
        _fail(f"{message}{separator}see {self.prog} --help")


class Command(Parser):
    """The parser of one command. It reports the flags that it does not know."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unrecognized(unknown))
        return found, unknown

    def _unrecognized(self, unknown: Sequence[str]) -> str:
        """The error for unknown flags. It names the owner of another method's option, and corrects a misspelt name."""
        text = f"unrecognized arguments: {' '.join(unknown)}"
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("--"):
            return text
        there = [_name(flag) for flag in self._option_string_actions]
        if "spec" not in there:  # of a run's options it has none
            near = nearest(_name(flag), there)
            return text if near is None else f"{text}; did you mean {_flag(near)}?"
        owners = known_options().get(_name(flag))
        if owners and EVERY_RUN not in owners:
            return f"{flag} is an option of {', '.join(owners[:3])}, which is not chosen here"
        hint = suggestion(_name(flag), there, _flag)
        return f"{text}; {hint}" if hint else text


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _fail(message: str) -> NoReturn:
    _tell(message)
    raise SystemExit(2)


def _tell(message: str) -> None:
    if processes.tells():
        print(f"tfcsr: {message}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parse(words)
        command = options.pop("command")
        with _together(command):
            command(options)
    except TfcsrError as error:
        _fail(str(error))
    except KeyboardInterrupt as interruption:
        message = str(interruption) or "interrupted; complete runs are kept, the same command goes on with the others"
        _tell(message)
        raise SystemExit(128 + getattr(interruption, "number", signal.SIGINT)) from None
    except BrokenPipeError:  # the reader of our output, a pager or head, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None


@contextmanager
def _together(command: Any) -> Iterator[None]:
    """With the processes that torchrun has started beside this one: all take part, process 0 alone speaks."""
    place = processes.started()
    if not place.several:
        yield
        return
    if command not in (commands.run, commands.learn, commands.resume):
        raise SpecError("torchrun is for tfcsr run, learn and resume, which train one network: leave it out here")
    if not place.leads:
        warnings.filterwarnings("ignore", category=TfcsrWarning)
    with processes.joined():
        yield


def parse(words: Sequence[str]) -> dict[str, Any]:
    """What a command line asks for. Which flags there are depends on the method and the other parts it chooses, which
    may be a plugin's: these are looked for first.
    """
    first = Parser(add_help=False)
    first.add_argument("--plugin", action="append", default=[])
    for source in first.parse_known_args(words)[0].plugin:
        plugins.load(source)
    parser = _parser(_chosen(words))
    found = vars(parser.parse_args(words))
    found.pop("plugin", None)
    return found


def _chosen(words: Sequence[str]) -> list[dict[str, Any]]:
    """The parts a command line chooses, once per method; those of its spec file count where no flag does."""
    command = next((word for word in words if not word.startswith("-")), "")
    if command not in ("run", "compare", "learn"):
        return [{}]
    fields = LearnerSpec.fields() if command == "learn" else FIELDS
    first = Parser(add_help=False)
    for name in ("spec", "methods"):
        first.add_argument(f"--{name}")
    asked = first.parse_known_args(words)[0]
    in_file = load_spec_file(asked.spec) if asked.spec is not None else {}
    methods: list[Any] = [None]
    if command == "compare":
        from tfcsr.methods import METHODS

        methods = METHODS.names() if asked.methods in (None, "all") else asked.methods.split(",")
    names: set[str] = set()
    runs: list[dict[str, Any]] = [{}]
    # A part that is chosen may let another be chosen: a method its policy.
    while more := {name for given in runs for name in _choices(given, fields)} - names:
        for name in more:
            first.add_argument(_flag(name))
        names |= more
        flags = vars(first.parse_known_args(words)[0])
        given = {name: flags[name] or in_file.get(name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        runs = [given if method is None else given | {"method": method} for method in methods]
    return runs


def _choices(given: Mapping[str, Any], fields: Mapping[str, Option]) -> list[str]:
    """The fields and options that name a part, which brings options of its own."""
    return [name for name, option in Parts(given, fields).options.items() if isinstance(option.choices, Registry)]


def _parser(chosen: Sequence[Mapping[str, Any]] = ({},)) -> Parser:
    parser = Parser(prog="tfcsr", description="Continual learning by replay and spaced recall.")
    parser.add_argument("--version", action="version", version=f"tfcsr {tfcsr.__version__}")
    shown = "learn | predict | recall | run | resume | compare | reproduce | report | watch | plot | data | list"
    added = parser.add_subparsers(required=True, metavar=shown, title="commands", parser_class=Command)

    learning = _add_learner(added, chosen)

    one = added.add_parser("run", help="train and evaluate one method on a benchmark, and keep the result")
    one.set_defaults(command=commands.run)
    _add_spec_flags(one, _groups(one, chosen), FIELDS, chosen)

    rest = added.add_parser("resume", help="finish a stopped run, or all stopped runs of a comparison")
    rest.set_defaults(command=commands.resume)
    rest.add_argument("folder", metavar="DIR", help="the folder of a run or a comparison")
    rest.add_argument(
        "--workers", default="0", metavar="N", help="number of runs at once (default: one per core; 1 on a GPU)"
    )
    _add_engine(rest)
    rest.add_argument("--data-dir", metavar="DIR", help=FIELDS["data_dir"].help)

    grid = added.add_parser("compare", help="run several methods with several seeds, and show how they differ")
    grid.set_defaults(command=commands.compare)
    grid.add_argument("--methods", default="all", metavar="A,B", help="which methods (default: all)")
    grid.add_argument("--seeds", default="5", metavar="N", help="number of seeds, or a list: 3,4,5 (default: 5)")
    grid.add_argument("--baseline", metavar="METHOD", help="the method the others are compared with (default: er)")
    grid.add_argument(
        "--workers", default="0", metavar="N", help="number of runs at once (default: one per core; what fits a GPU)"
    )
    _add_engine(grid)
    grid.add_argument(
        "--equal-steps",
        action="store_true",
        help="give every method the optimizer steps of plain training (`all` then leaves out mastery-gated methods)",
    )
    grid.add_argument(
        "--class-orders",
        default="1",
        metavar="N",
        help="number of class orders that the seeds share (default: 1; intervals then hold for that order)",
    )
    fields = [name for name in FIELDS if name not in ("method", "seed")]
    _add_spec_flags(grid, _groups(grid, chosen), fields, chosen)

    paper = added.add_parser(
        "reproduce", help="reproduce the paper's tables and figures, each with a verdict; or our own claims"
    )
    paper.set_defaults(command=commands.reproduce)
    paper.add_argument(
        "targets",
        nargs="+",
        metavar="TARGET",
        help="the paper: fig1-3, fig-a1, fig-b1, fig-b2, fig-c1, fig-d1, table1-3, table-a1; mnist, cifar, audit or"
        " all. Our own claims: beyond, or a part like beyond/accuracy. Comparison with outside code: scenarios, or"
        " one like scenarios/task",
    )
    paper.add_argument("--seeds", default="5", metavar="N", help="number of seeds, or a list: 3,4,5 (default: 5)")
    paper.add_argument(
        "--out",
        metavar="DIR",
        help="the folder for runs, figures and the page (default: results/reproduce, or named after the study)",
    )
    paper.add_argument(
        "--data", metavar="BENCHMARK", help="run on this benchmark instead of the paper's; split-digits takes minutes"
    )
    paper.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="PATH",
        help="reuse finished runs from here: a results.json or a folder of runs (repeatable)",
    )
    paper.add_argument(
        "--benchmark", metavar="NAME", help="only the runs on this benchmark, for example those for a GPU"
    )
    paper.add_argument("--dry-run", action="store_true", help="show what would run, and the expected time")
    paper.add_argument("--no-run", action="store_true", help="run nothing; make tables and figures from finished runs")
    paper.add_argument(
        "--workers", default="0", metavar="N", help="number of runs at once (default: one per core; what fits a GPU)"
    )
    _add_engine(paper)
    paper.add_argument("--device", default="auto", metavar="VALUE", help=FIELDS["device"].help)
    paper.add_argument("--data-dir", metavar="DIR", help=FIELDS["data_dir"].help)

    looking = _add_looking(added)

    data = added.add_parser("data", help="list, download or check datasets")
    actions = data.add_subparsers(required=True, metavar="list | fetch NAME | check NAME", title="actions")
    for action, command, text in (
        ("list", commands.data_list, "list the datasets, and where they are"),
        ("fetch", commands.data_fetch, "download a dataset into the data folder"),
        ("check", commands.data_check, "read a whole dataset and validate it"),
    ):
        sub = actions.add_parser(action, help=text)
        sub.set_defaults(command=command)
        if action != "list":
            sub.add_argument("name", metavar="NAME", help=", ".join(DATASETS))
        sub.add_argument("--data-dir", metavar="DIR", help=FIELDS["data_dir"].help)

    names = added.add_parser("list", help=f"list {', '.join(commands.LISTS)}, or the runs in a folder")
    names.set_defaults(command=commands.list_names)
    names.add_argument("what", metavar="|".join((*commands.LISTS, "runs")))
    names.add_argument("folder", nargs="?", metavar="DIR", help="for runs: their folder (default: results)")
    for one in (*learning, rest, paper, *looking, names):
        _add_plugin(one)
    return parser


def _add_learner(added: Any, chosen: Sequence[Mapping[str, Any]]) -> list[Command]:
    learn = added.add_parser("learn", help="train a network on new data and keep it, or go on with a kept one")
    learn.set_defaults(command=commands.learn)
    learn.add_argument("folder", nargs="?", metavar="MODEL", help="the folder of a kept network, to go on with")
    groups = _groups(learn, chosen)
    data, output = groups["data"], groups["output"]
    data.add_argument("--data", required=True, metavar="PATH", help="a folder with a directory per class, or an .npz")
    data.add_argument("--size", metavar="N", help="resize images from folders to N by N pixels")
    data.add_argument("--skip-unreadable", action="store_true", help="skip images that cannot be read")
    groups["training"].add_argument(
        "--head", metavar="NAME", help="name of the network's last linear layer, if it cannot be found"
    )
    output.add_argument("--out", metavar="DIR", help="the folder of a new network (default: model)")
    output.add_argument("--again", action="store_true", help="learn the same data again")
    output.add_argument("--restart", action="store_true", help="start a stopped learn over, instead of resuming it")
    _add_spec_flags(learn, groups, LearnerSpec.fields(), chosen)

    ask = added.add_parser("predict", help="predict new images with a kept network: file, label, probability")
    ask.set_defaults(command=commands.predict)
    ask.add_argument("folder", metavar="MODEL", help="the folder of a kept network, made by `learn` or `run`")
    ask.add_argument("files", nargs="+", metavar="FILE", help="images, folders of images, or an .npz with x")
    ask.add_argument(
        "--among", metavar="LABEL,...", help="answer with one of these labels, such as those of one task (default: any)"
    )
    ask.add_argument("--json", action="store_true", help="print JSON, one object per line")
    ask.add_argument("--csv", action="store_true", help="print CSV, with a header")
    ask.add_argument("--skip-unreadable", action="store_true", help="skip images that cannot be read")

    known = added.add_parser("recall", help="probe a kept network: recall of each class in its memory")
    known.set_defaults(command=commands.recall)
    known.add_argument("folder", metavar="MODEL", help="the folder of a kept network")
    known.add_argument("--json", action="store_true", help="print JSON")
    for one in (ask, known):
        one.add_argument("--device", metavar="VALUE", help=FIELDS["device"].help)
    return [ask, known]


def _add_looking(added: Any) -> list[Command]:
    page = added.add_parser("report", help="write one HTML page of a results folder; it opens from disk")
    page.set_defaults(command=commands.report)
    page.add_argument("folder", metavar="DIR", help="the folder of a run or a comparison; runs may still be going")
    page.add_argument("--out", metavar="FILE", help="the file to write (default: DIR/report.html)")

    live = added.add_parser("watch", help="serve the same page live to browsers on this machine, while runs go on")
    live.set_defaults(command=commands.watch)
    live.add_argument("folder", metavar="DIR", help="the folder of a run or a comparison; it need not exist yet")
    live.add_argument("--port", default="0", metavar="N", help="the port (default: 0, any free one)")
    live.add_argument("--host", default="127.0.0.1", metavar="HOST", help="127.0.0.1 (the default) or localhost")

    picture = added.add_parser("plot", help="write a figure to a file, for a paper")
    picture.set_defaults(command=commands.plot)
    picture.add_argument("folder", metavar="DIR", help="the folder of a run or a comparison")
    which = "overview (the default), curves, final, matrix, timeline, retention or cost"
    picture.add_argument("--figure", default="overview", metavar="NAME", help=which)
    picture.add_argument("--benchmark", metavar="NAME", help="the benchmark, if DIR holds several")
    picture.add_argument("--methods", nargs="+", metavar="A,B", help="which methods (default: all)")
    picture.add_argument("--seeds", nargs="+", metavar="0,1", help="which seeds (default: all)")
    picture.add_argument("--format", metavar="FORMAT", help="png, svg or pdf (default: the suffix of --out, or png)")
    picture.add_argument("--out", metavar="FILE", help="the file to write (default: DIR/NAME.FORMAT)")
    return [page, live, picture]


def _groups(parser: Parser, chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The groups of a command's help, empty. What is empty in the end is not shown."""
    command = parser.prog.rpartition(" ")[2]
    parser.usage = f"%(prog)s {'[MODEL] --data PATH ' if command == 'learn' else ''}[option ...]"
    choice = "--methods" if command == "compare" else "--method"
    others = f"other methods have other options: {parser.prog} {choice} NAME --help"
    parser.epilog = "\n".join([others, "", "examples:", *(f"  {example}" for example in EXAMPLES[command])])
    fields = LearnerSpec.fields() if command == "learn" else FIELDS
    names = list(dict.fromkeys(given.get("method", fields["method"].default) for given in chosen))
    title = f"options of {', '.join(names)}" if len(names) < 4 else "options of the methods"
    return {name: parser.add_argument_group(title if name == "method" else name) for name in GROUPS}


def _add_spec_flags(
    parser: Parser, groups: Mapping[str, Any], names: Iterable[str], chosen: Sequence[Mapping[str, Any]]
) -> None:
    _add_plugin(parser)
    parser.add_argument("--spec", metavar="FILE", help="a JSON or TOML file with spec fields; flags override it")
    fields = FIELDS if "benchmark" in names else LearnerSpec.fields()
    parts = [Parts(given, fields) for given in chosen]
    own = {o.name: o for part in parts for o in part.options.values() if o.name not in FIELDS}
    for option in (*(fields[name] for name in names), *own.values()):
        having = [part for part in parts if option.name in part.options]
        # Two parts may mean different things by one name: the help is of this one, and so is the group.
        declaring = next((part for part in having if part.options[option.name] is option), having[0])
        _add_flag(groups[_group(option.name, declaring)], option, having)


def _group(name: str, part: Parts) -> str:
    for group, names in GROUPS.items():
        if name in names:
            return group
    return _group(part.chosen_by[name], part) if name in part.chosen_by else "training"


def _add_plugin(parser: Parser) -> None:
    parser.add_argument(
        "--plugin",
        action="append",
        metavar="FILE_OR_MODULE",
        help="a Python file or module that registers methods, models, benchmarks, policies or schedules (repeatable;"
        " also $TFCSR_PLUGINS)",
    )


def _add_engine(parser: Parser) -> None:
    parser.add_argument(
        "--engine",
        default="local",
        metavar="NAME",
        help="where the runs are executed: local, this machine (the default), or ray, a Ray cluster",
    )
    parser.add_argument(
        "--address",
        metavar="ADDR",
        help="the Ray cluster: auto, HOST:PORT or ray://HOST:PORT (default: $RAY_ADDRESS, or this machine alone)",
    )


def _add_flag(group: Any, option: Option, parts: Sequence[Parts]) -> None:
    default = default_text(option, parts[0] if len(parts) == 1 else None)
    metavar, names = {int: "N", float: "X"}.get(option.type, "VALUE"), ""
    if isinstance(option.choices, Registry):  # there are too many for the one word that a metavar is
        metavar, names = "NAME", f": {', '.join(option.names())}"
    elif option.choices:
        metavar = "{" + ",".join(option.names()) + "}"
    text = (option.help + names + (f" ({default})" if default else "")).replace("%", "%%")
    if option.type is bool:
        group.add_argument(_flag(option.name), action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    group.add_argument(_flag(option.name), metavar=metavar, help=text)


if __name__ == "__main__":
    main()
