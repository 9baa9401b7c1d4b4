"""The reference page: every field, every option and every public function, read off the code.

python -m tfcsr.reporting.reference docs/reference.md
"""

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tfcsr
from tfcsr.files import write_bytes
from tfcsr.options import UNSET, Option, format_value
from tfcsr.registry import Registry
from tfcsr.spec import FIELDS, OF_BENCHMARKS, REGISTRIES

KINDS = {int: "int", float: "float", str: "str", bool: "bool", tuple: "int or list"}
FUNCTIONS = ("run", "resume", "compare")
CLASSES = {
    "RunSpec": ("replace", "given", "flags", "values", "get", "to_dict", "from_dict", "key", "name"),
    "Learner": ("learn", "predict", "predict_proba", "recall", "evaluate", "forget", "export", "save", "load"),
    "Buffer": ("add", "draw", "write", "stored", "classes"),
}


def reference_text() -> str:
    lines = [
        "# Reference",
        "",
        "Made by `python -m tfcsr.reporting.reference docs/reference.md`.",
        "",
        "## Functions",
        "",
    ]
    for name in FUNCTIONS:
        lines += entry(f"tfcsr.{name}", getattr(tfcsr, name))
    for owner, names in CLASSES.items():
        kind = getattr(tfcsr, owner)
        lines += [f"## `tfcsr.{owner}`", "", described(kind), ""]
        for name in names:
            lines += entry(f"{owner}.{name}", getattr(kind, name))
    lines += ["## Fields of a run", ""]
    lines += [
        "Arguments of `tfcsr.RunSpec`, names in a spec file and, with hyphens, flags: `lr_schedule` is `--lr-schedule`."
    ]
    lines += [f"A learner has all of them but {', '.join(f'`{name}`' for name in OF_BENCHMARKS)}.", ""]
    lines += option_table(FIELDS.values())
    for registry in REGISTRIES:
        lines += ["", f"## Options of each {registry.kind}", ""]
        lines += registry_lines(registry)
    return "\n".join(lines) + "\n"


def entry(name: str, function: Any) -> list[str]:
    return [f"### `{name}{signature(function)}`", "", described(function), ""]


def signature(function: Any) -> str:
    """Its arguments; a default that is itself a function is shown as `...`."""
    given = inspect.signature(function)
    kept = [p.replace(annotation=p.empty) for p in given.parameters.values() if p.name not in ("self", "cls")]
    kept = [p.replace(default=Ellipsis) if inspect.isfunction(p.default) else p for p in kept]
    return str(given.replace(parameters=kept, return_annotation=given.empty)).replace("Ellipsis", "...")


def described(thing: Any) -> str:
    """Its docstring, paragraph by paragraph; examples stay as they are."""
    text = inspect.getdoc(thing) or ""
    paragraphs = [p if p.startswith("    ") else " ".join(p.split()) for p in text.split("\n\n")]
    return "\n\n".join(paragraphs)


def registry_lines(registry: Registry[Any]) -> list[str]:
    lines: list[str] = []
    shared = shared_options(registry)
    if shared:
        owners = {option.name: [n for n in ours(registry) if option in registry.options(n)] for option in shared}
        lines += option_table(shared, owners)
    for name in ours(registry):
        own = [option for option in registry.options(name) if option not in shared]
        lines += ["", f"**`{name}`**: {registry.describe(name)}{defaults(registry, name)}"]
        lines += [*([""] if own else []), *option_table(own)]
    return lines


def defaults(registry: Registry[Any], name: str) -> str:
    """What it makes of other fields that are not given."""
    found = {} if registry.family(name) else dict(getattr(registry.get(name), "defaults", {}))
    said = ", ".join(f"`{field} {format_value(value)}`" for field, value in found.items())
    return f" With it, unless given: {said}." if said else ""


def ours(registry: Registry[Any]) -> list[str]:
    return [name for name in registry.forms() if registry.ships(name)]


def shared_options(registry: Registry[Any]) -> list[Option]:
    """Those that several entries have, each once."""
    found: dict[str, list[Option]] = {}
    for name in ours(registry):
        for option in registry.options(name):
            found.setdefault(option.name, []).append(option)
    return [options[0] for options in found.values() if len(options) > 1]


def option_table(options: Iterable[Option], owners: dict[str, list[str]] | None = None) -> list[str]:
    rows = []
    for option in options:
        cells = [f"`{option.name}`", KINDS.get(option.type, ""), _default(option), _help(option)]
        rows.append(cells + ([", ".join(f"`{n}`" for n in owners[option.name])] if owners else []))
    if not rows:
        return []
    header = ["field", "type", "default", "what it is", *(["of"] if owners else [])]
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]


def _default(option: Option) -> str:
    default = "" if option.default is None else f"`{format_value(option.default)}`"
    paper = "" if option.paper in (UNSET, option.default) else f"; paper: `{format_value(option.paper)}`"
    return default + paper


def _help(option: Option) -> str:
    names = [] if isinstance(option.choices, Registry) else option.names()
    # Choices that the help text names need not be listed again.
    listed = "" if all(f"`{name}`" in option.help for name in names) else f" ({', '.join(f'`{n}`' for n in names)})"
    return (option.help + listed).replace("|", "\\|")


if __name__ == "__main__":
    write_bytes(Path(sys.argv[1]), reference_text().encode())
