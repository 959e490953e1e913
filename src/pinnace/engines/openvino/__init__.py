"""OpenVINO as an engine.

`engine` is the entry point. `conversion` makes OpenVINO's models of graphs, over mapped weights: `supported`
says which operators it gets, and `rewrites` and `guards` write equivalent forms and checks. `session`
compiles the models, `executable` runs them.
"""

import importlib
import sys

_TELEMETRY = "openvino_telemetry"


def _import_without_telemetry() -> None:
    """Import OpenVINO as it is without the package that reports to its maker, unless it is imported already.

    With it (2026.4), the import writes files below ~/intel, and a thread forks a process that sends a report
    to Google Analytics. Python takes a module that is None for one that is not installed.
    """
    if "openvino" in sys.modules:
        return
    before = sys.modules.get(_TELEMETRY)
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    try:
        importlib.import_module("openvino")
    finally:
        del sys.modules[_TELEMETRY]
        if before is not None:
            sys.modules[_TELEMETRY] = before


_import_without_telemetry()
