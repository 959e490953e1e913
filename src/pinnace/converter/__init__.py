"""The converter: a model of any format that Pinnace reads becomes a file that MindSpore opens.

    file ──formats──▶ program or graph ──lowering──▶ ONNX graph ──raising──▶ program ──formats──▶ file

It is the way that a model takes to an engine, walked back: what lowering makes of a program, `raising` makes
a program of again, by a table of rules for both dialects (`rules`, `decompositions`).
"""
