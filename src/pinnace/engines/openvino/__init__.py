"""OpenVINO as an engine.

`engine` is the entry point. `conversion` makes OpenVINO's models of graphs, over mapped weights: `supported`
says which operators it gets, and `rewrites` and `guards` write equivalent forms and checks. `session`
compiles the models, `executable` runs them.
"""
