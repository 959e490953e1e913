"""Calls in a process of their own, as MindSpore Lite may end its process or hang; for Python 3.7 too."""

import os
import pickle
import signal


def isolated(function, *arguments):
    """What a function returns, and the signal that ended its process; None where it raised, crashed or hung."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            answer = pickle.dumps(function(*arguments))
            with os.fdopen(write, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    return (pickle.loads(answer) if answer else None), status & 127
