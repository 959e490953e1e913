"""A server of models: the Open Inference Protocol over HTTP and gRPC (extra `serve`)."""

from pinnace.server.server import Server

__all__ = ["Server"]
