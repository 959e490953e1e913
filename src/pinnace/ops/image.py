"""Being written by another helper (nn families: conv, pool, norm, linalg, recurrent, image, attention).

The helper with math, scalar, activation, reduce, array, index, loss: leave these primitives to it.
"""
