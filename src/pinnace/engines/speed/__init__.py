"""Expected speed of graphs on the engines of the CPU, from what was measured of classes of work.

`work` finds the work of a graph, `profile` has the speed of a machine, `choice` chooses by them.
"""
