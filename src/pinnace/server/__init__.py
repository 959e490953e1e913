"""A server of models: the Open Inference Protocol over HTTP and gRPC; needs the extra `serve`."""

from pinnace.server.http import app
from pinnace.server.server import Options, Server
from pinnace.server.settings import ModelSettings

__all__ = ["ModelSettings", "Options", "Server", "app"]
