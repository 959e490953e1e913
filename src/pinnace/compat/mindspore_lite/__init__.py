"""Pinnace under the name of mindspore_lite, for scripts that were written for that.

Nothing is defined here: every name is Pinnace's. Found by `import mindspore_lite` only where
`pinnace exec` has put the folder above on the path.
"""

from .base_model import *
from .context import *
from .converter import *
from .lite_infer import *
from .model import *
from .tensor import *
from .version import __version__ as __version__
