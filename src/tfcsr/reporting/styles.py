"""How each method looks, the same in every figure and on every page."""

import hashlib
import re
from collections.abc import Sequence

from tfcsr.methods import METHODS

# For methods that do not say how they look. Ours do, beside their code: Okabe and Ito's colours and some of Tol's,
# which colour-blind readers can tell apart, and a line style each for print.
OTHERS = ("#AA4499", "#44AA99", "#999933", "#6699CC", "#AA7744", "#661100")
LINES = ("-", "--", "-.", ":")
SHADES = (1.0, 0.7, 0.45)  # of a colour, for a method with more variants than there are lines


def style(method: str, variant: int = 0) -> tuple[str, str]:
    """A method's colour, and a line of its own for each of its variants."""
    colour, line = _said(method) or _preferred(method)
    return colour, LINES[(LINES.index(line) + variant) % len(LINES)]


def styles(series: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """The looks of series that stand beside each other, each a method and the number of its variant. No two are alike
    while looks last: a method that does not say its own takes one that is free.
    """
    own: dict[str, tuple[str, str]] = {}
    # Ours keep their looks whoever comes beside them; of the others, who said one is asked first.
    for method in sorted({name for name, _ in series}, key=lambda name: (not _ships(name), not _said(name), name)):
        own[method] = _free(method, list(own.values()))
    taken: set[tuple[str, str]] = set()
    found = []
    for method, variant in series:
        colour, line = own[method]
        first = LINES.index(line) + variant
        looks = [
            (_shaded(colour, SHADES[(variant // len(LINES) + i) % len(SHADES)]), LINES[(first + j) % len(LINES)])
            for i in range(len(SHADES))
            for j in range(len(LINES))
        ]
        look = next((look for look in looks if look not in taken), looks[0])
        taken.add(look)
        found.append(look)
    return found


def _free(method: str, used: list[tuple[str, str]]) -> tuple[str, str]:
    said, colours, lines = _said(method), [colour for colour, _ in used], [line for _, line in used]
    if said and (_ships(method) or said[0] not in colours):
        return said
    colour, line = _preferred(method)
    # min takes the first of equals: what the name leads to, unless something else is freer.
    return min(_from(OTHERS, colour), key=colours.count), min(_from(LINES, line), key=lines.count)


def _from(values: tuple[str, ...], first: str) -> tuple[str, ...]:
    start = values.index(first)
    return (*values[start:], *values[:start])


def _ships(method: str) -> bool:
    return method in METHODS.names() and METHODS.ships(method)


def _said(method: str) -> tuple[str, str] | None:
    """What the method says, if a page can show it: a plugin may say anything."""
    said = vars(METHODS.get(method)).get("style") if method in METHODS.names() else None
    match said:
        case (str(colour), str(line)) if re.fullmatch("#[0-9A-Fa-f]{6}", colour) and line in LINES:
            return colour, line
    return None


def _preferred(method: str) -> tuple[str, str]:
    """Where its name leads, so that it looks the same on most pages."""
    number = int.from_bytes(hashlib.sha256(method.encode(errors="replace")).digest()[:4])
    return OTHERS[number % len(OTHERS)], LINES[number // len(OTHERS) % len(LINES)]


def _shaded(colour: str, share: float) -> str:
    if share == 1:
        return colour
    return "#" + "".join(f"{round(share * int(colour[i : i + 2], 16)):02X}" for i in (1, 3, 5))


# By the colour that a method says, which stays when others are added. All can be drawn hollow.
MARKERS = {
    "#0072B2": "o",
    "#D55E00": "s",
    "#CC79A7": "D",
    "#666666": "v",
    "#56B4E9": "<",
    "#009E73": "^",
    "#E69F00": "d",
    "#B2182B": ">",
    "#000000": "*",
    "#117733": "P",
    "#332288": "X",
    "#882255": "h",
}
SPARE = ("p", "H", "8")  # for the others
ALL_MARKERS = (*MARKERS.values(), *SPARE)


def marker(method: str, variant: int = 0) -> str:
    """A method's marker, the same in every figure, and one for each of its variants."""
    said = _said(method)
    place = ALL_MARKERS.index(MARKERS[said[0]]) if said and said[0] in MARKERS else _spare(method)
    return ALL_MARKERS[(place + variant) % len(ALL_MARKERS)]


def _spare(method: str) -> int:
    """Those that ship take turns, so that no two are alike while there are enough."""
    looks = {name: _said(name) for name in METHODS.names() if _ships(name)}
    unlisted = [name for name, said in looks.items() if said is None or said[0] not in MARKERS]
    number = int.from_bytes(hashlib.sha256(method.encode(errors="replace")).digest()[:4])
    turn = unlisted.index(method) if method in unlisted else number
    return len(MARKERS) + turn % len(SPARE)
