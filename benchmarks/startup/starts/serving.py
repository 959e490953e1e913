"""The first seconds of a service (MODEL CLIENTS WORKERS SECONDS), whose clients predict again and again."""

import json
import sys
import threading
import time

import numpy as np

import pinnace

path, (clients, workers, seconds) = sys.argv[1], map(int, sys.argv[2:])
context = pinnace.Context()
context.cpu.thread_num = 1
context.parallel.workers_num = workers
runner = pinnace.ModelParallelRunner()
runner.build_from_file(path, context)
took: list[float] = []
end = time.perf_counter() + seconds


def client() -> None:
    ports = runner.get_inputs()
    arrays = [np.zeros([max(1, size) for size in one.shape], one.dtype.to_numpy()) for one in ports]
    while (begin := time.perf_counter()) < end:
        runner.predict(arrays)
        took.append(time.perf_counter() - begin)


threads = [threading.Thread(target=client) for _ in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"a second": len(took) / seconds, "p99": float(np.percentile(took, 99)) * 1e3}))
