"""What the buffer keeps: a file per policy; `base.py` says what one has to answer."""

from typing import TYPE_CHECKING

from tfcsr.registry import Registry

if TYPE_CHECKING:
    from tfcsr.buffer.policies.base import Policy

POLICIES: "Registry[type[Policy]]" = Registry("policy", __name__, beside=("base", "ranked"), needs=("keep", "fields"))
