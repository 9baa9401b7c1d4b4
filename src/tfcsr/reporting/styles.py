"""How each method looks, the same in every figure and on every page."""

import hashlib

from tfcsr.methods import METHODS

# For methods that do not say how they look. Ours do, beside their code: Okabe and Ito's colours and some of Tol's,
# which colour-blind readers can tell apart, and a line style each for print.
OTHERS = ("#AA4499", "#44AA99", "#999933", "#6699CC", "#AA7744", "#661100")
LINES = ("-", "--", "-.", ":")


def style(method: str, variant: int = 0) -> tuple[str, str]:
    """A method's colour, and a line of its own for each of its variants."""
    said = vars(METHODS.get(method)).get("style") if method in METHODS.names() else None
    number = int.from_bytes(hashlib.sha256(method.encode(errors="replace")).digest()[:4])
    colour, line = said or (OTHERS[number % len(OTHERS)], LINES[number // len(OTHERS) % len(LINES)])
    return colour, LINES[(LINES.index(line) + variant) % len(LINES)]
