"""OpenVINO on the processor.

`engine` is the door; `reading` makes OpenVINO's models of graphs, over weights that stay where they lie;
`session` compiles and runs them; `lacking` knows what is not given to it.
"""
