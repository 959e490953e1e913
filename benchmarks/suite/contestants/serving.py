"""The loop of a contestant: one process, one library, one model; commands come as lines of JSON.

This file and its neighbors run with the interpreter of the library that they measure, which may be as old
as Python 3.7. They need numpy and that library, and nothing of Pinnace but in its own contestant.

A library is an object with

    version                                     of the library, as text
    engine                                      that it chose, where it has several
    convert(onnx, folder) -> path               the file that it reads; only where that is not the ONNX file
    load(job) -> precision                      builds a `Job`, and says what it computes in: "fp32", "fp16"
                                                or "bf16"
    caller() -> predict                         for one thread that predicts; predict(arrays) -> arrays

Everybody takes numpy arrays and gives arrays that the caller may keep, in the order of the ONNX file.
"""

import json
import os
import sys
import threading
import time

import numpy as np


class Job:
    """What to load: `file`, and how."""

    def __init__(self, file, inputs, outputs, threads=1, precision="fp32", workers=0, cache="", options=None):
        self.file = file
        self.inputs = inputs  # names
        self.outputs = outputs  # names
        self.threads = threads  # of a worker
        self.precision = precision  # "fp32" or "16 bit"
        self.workers = workers  # 0: one model for one caller at a time, else a pool
        self.cache = cache  # a folder for what was compiled, "" for none
        self.options = options or {}  # of Pinnace's runner


class Commands:
    """What can be asked of a contestant; a method each."""

    def __init__(self, library, imported):
        self._library = library
        self._imported = imported
        self._inputs, self._names = [], []
        self._predict = None

    def convert(self, onnx, folder):
        return {"file": self._library.convert(onnx, folder)}

    def load(self, inputs, **job):
        """Build the model; `inputs` is a .npz file of arrays by name, the others are those of `Job`."""
        stored = np.load(inputs)
        self._inputs = [stored[name] for name in stored.files]
        self._names = job["outputs"]
        start = time.perf_counter()
        used = self._library.load(Job(inputs=stored.files, **job))
        built = time.perf_counter() - start
        self._predict = self._library.caller()
        return {
            "import": self._imported,
            "build": built,
            "precision": used,
            "version": self._library.version,
            "engine": getattr(self._library, "engine", ""),
        }

    def outputs(self, file):
        """Predict once, and write the outputs to a .npz file by name."""
        np.savez(file, **dict(zip(self._names, self._predict(self._inputs))))
        return {}

    def latency(self, seconds, least=3):
        """The median time of a prediction, after one that does not count."""
        self._predict(self._inputs)
        times = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < least:
            start = time.perf_counter()
            self._predict(self._inputs)
            times.append(time.perf_counter() - start)
        return {"seconds": float(np.median(times)), "count": len(times)}

    def throughput(self, clients, seconds):
        """What clients get together, and what one gets who is alone."""
        alone = self.latency(seconds / 4)["seconds"]
        lasted, times = crowd(self._library.caller, self._inputs, clients, seconds)
        means = [float(np.mean(own)) for own in times]
        every = [one for own in times for one in own]
        return {
            "rate": len(every) / lasted,
            "alone": alone,
            "p50": float(np.percentile(every, 50)),
            "p99": float(np.percentile(every, 99)),
            "slowest over fastest": max(means) / min(means),
        }

    def memory(self, clients=1):
        """Memory of this process in MB, after every client has predicted a few times."""
        crowd(self._library.caller, self._inputs, clients, 0.5)
        with open("/proc/self/smaps_rollup") as file:
            kb = {line.split(":")[0]: int(line.split()[1]) for line in file if "kB" in line}
        return {"resident": kb["Rss"] / 1024, "proportional": kb["Pss"] / 1024}


def crowd(caller, inputs, clients, seconds):
    """How long the clock ran, and the times of the predictions of each client that ended meanwhile.

    A client is a thread that predicts again as soon as it has an answer. The clock starts when all of them
    have had one, so that what it sees is steady, and stops after `seconds` and two more answers for each.
    """
    spans = [[] for _ in range(clients)]
    failures, over = [], threading.Event()

    def client(own):
        try:
            predict = caller()
            while not over.is_set():
                start = time.perf_counter()
                predict(inputs)
                own.append((start, time.perf_counter()))
        except Exception as error:
            failures.append(error)
            over.set()

    def wait_for(answers):
        while not over.is_set() and any(len(own) < count for own, count in zip(spans, answers)):
            time.sleep(0.005)

    threads = [threading.Thread(target=client, args=(own,)) for own in spans]
    for thread in threads:
        thread.start()
    wait_for([1] * clients)
    begin, had = time.perf_counter(), [len(own) for own in spans]
    over.wait(seconds)
    wait_for([count + 2 for count in had])
    finish = time.perf_counter()
    over.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return finish - begin, [[end - start for start, end in own if begin < end <= finish] for own in spans]


def serve(open_library):
    """Answer commands from the standard input until it ends.

    Libraries print what they like: the answers have the standard output for themselves, all else goes to
    the standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = time.perf_counter()
    commands = Commands(open_library(), time.perf_counter() - start)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(commands, request.pop("do"))(**request)
        except Exception as error:
            answer = {"failed": "{}: {}".format(type(error).__name__, error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
