"""OpenVINO as an engine.

`engine` is the entry point. `reading` converts graphs to OpenVINO's models over mapped weights: `lacking`
refuses operators, with `conditions`, and `spelling` and `guards` write checks and equivalent forms. `session`
compiles the models, `executable` runs them.
"""
