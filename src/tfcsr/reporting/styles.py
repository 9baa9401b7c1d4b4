"""How each method looks, the same in every figure and on every page."""

# Okabe and Ito's colours, which colour-blind readers can tell apart, and a line style each for print.
STYLES = {
    "joint": ("#000000", ":"),
    "er": ("#0072B2", "-"),
    "tfcsr": ("#D55E00", "--"),
    "tfcsr-spaced": ("#E69F00", "-."),
    "mgp": ("#009E73", "-"),
    "ewc": ("#CC79A7", "--"),
    "si": ("#56B4E9", "-."),
    "finetune": ("#666666", "-"),
}
OTHER = ("#888888", "-")
LINES = ("-", "--", "-.", ":")


def style(method: str, variant: int = 0) -> tuple[str, str]:
    """A method's colour, and a line of its own for each of its variants."""
    colour, line = STYLES.get(method, OTHER)
    return colour, LINES[(LINES.index(line) + variant) % len(LINES)]
