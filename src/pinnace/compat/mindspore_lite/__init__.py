"""Pinnace under the name mindspore_lite, for scripts written for it.

All names are Pinnace's. `import mindspore_lite` finds this package only if `pinnace exec` has put its parent
folder on the path.
"""

import pinnace

from .base_model import *
from .context import *
from .converter import *
from .lite_infer import *
from .model import *
from .tensor import *
from .version import __version__ as __version__


def __getattr__(name: str) -> object:
    """Return what is not imported with the package; scripts know it as mindspore_lite."""
    try:
        return pinnace.__getattr__(name)
    except AttributeError:
        raise AttributeError(f"module 'mindspore_lite' has no attribute {name!r}") from None
