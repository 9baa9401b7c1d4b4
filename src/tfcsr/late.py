"""torch, imported when it is first used. Methods declare their options beside their code, and a spec, a help text or a
report needs the options without the second that torch takes. Plugins may import torch as usual.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("torch"), name)

    torch = _Late()
