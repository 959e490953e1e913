"""onnxruntime as an engine.

`engine` is the entry point, and all that cached models need besides `session` and `executable`. `compilation`
makes sessions of graphs: `rules` rewrites forms that onnxruntime refuses or computes slowly, `guards` those
that would end the process, `kernel_types` element types without kernels (`kernels` lists the operators).
`export` writes cache entries, `refitting` makes sessions with other weights.
"""

import os

# Since 1.29 the import starts a thread that sends reports to Microsoft, and a forked child waits forever for
# that thread at its exit. onnxruntime's Privacy.md documents the variable.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
