"""Random ONNX graphs: `python -m tests.random_graphs --count 5000 --seed 1 --engine onnxruntime`.

Case number N of a seed is a graph of one to some eight nodes, made of ONNX's own schemas (`operators`) or of
chains that compilers like to write otherwise (`chains`), dressed as files come: constants here and there, free
dimensions, branches, loops, functions (`dress`). onnxruntime without optimization says what it gives
(`oracle`); Pinnace must give the same (`judge`). Cases run in child processes (`runner`), since an engine may
end the process. `shrink` cuts a failing graph down to what fails.
"""
