"""The primitive table. Importing this package fills it: one module a family."""

from __future__ import annotations

from pinnace.ops import math as math
from pinnace.ops import structure as structure
