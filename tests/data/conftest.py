from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tfcsr.errors import DataError

Refused = Callable[..., AbstractContextManager[None]]


@contextmanager
def _refused(*parts: object) -> Iterator[None]:
    with pytest.raises(DataError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


@pytest.fixture(scope="session")
def refused() -> Refused:
    """Expects a DataError of one line that has all these parts in it."""
    return _refused


@contextmanager
def _sound_or_refused(path: Path) -> Iterator[None]:
    message = str(path)
    try:
        yield
    except DataError as error:
        message = str(error)
    assert str(path) in message
    assert "\n" not in message


@pytest.fixture(scope="session")
def sound_or_refused() -> Refused:
    """Lets a DataError of one line that names the path pass, and nothing else."""
    return _sound_or_refused


@st.composite
def _mutations(draw: Any, original: bytes, header: int) -> bytes:
    """Damage of a few bytes, half of it in the header, or a cut, or bytes put in."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.one_of(st.integers(0, min(header, len(data))), st.integers(0, len(data))))
        kind = draw(st.sampled_from(("replace", "insert", "cut", "remove")))
        some = draw(st.binary(min_size=1, max_size=8))
        if kind == "replace":
            data[at : at + len(some)] = some
        elif kind == "insert":
            data[at:at] = some
        elif kind == "cut":
            del data[at:]
        else:
            del data[at : at + len(some)]
    return bytes(data)


@pytest.fixture(scope="session")
def mutations() -> Callable[[bytes, int], st.SearchStrategy[bytes]]:
    return _mutations
