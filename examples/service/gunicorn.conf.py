"""Two workers of gunicorn over one model, which the master builds; each has metrics on a port of its own."""

import os

from prometheus_client import REGISTRY, start_http_server

from pinnace.metrics import Collector

workers, threads, preload_app = 2, 8, True
# Twice as many as workers: a reload (SIGHUP) starts the new workers before the old ones end.
ports = [int(port) for port in os.environ.get("METRICS_PORTS", "9100 9101 9102 9103").split()]


def post_worker_init(worker):
    """Serve the metrics of this worker on the first free port; Prometheus scrapes all of them."""
    REGISTRY.register(Collector())
    for port in ports:
        try:
            server, _ = start_http_server(port)
        except OSError:
            continue
        worker.log.info("metrics of %s on port %s", worker.pid, server.server_port)
        return
    worker.log.warning("no port is free for the metrics of %s", worker.pid)
