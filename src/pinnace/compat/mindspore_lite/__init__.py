"""Pinnace under the name mindspore_lite, for scripts written for it.

All names are Pinnace's. `import mindspore_lite` finds this package only if `pinnace exec` has put its parent
folder on the path.
"""

from pinnace import __getattr__ as __getattr__

from .base_model import *
from .context import *
from .converter import *
from .lite_infer import *
from .model import *
from .tensor import *
from .version import __version__ as __version__
