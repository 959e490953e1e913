"""Work for clients: aside of the event loop, and only as long as they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from starlette.requests import ClientDisconnect, Request

_LONG = 1 << 16
"""Bytes whose JSON takes some milliseconds."""
P = ParamSpec("P")
T = TypeVar("T")


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return `work(...)`; in a thread if there are so many bytes that others would wait for it."""
    return await asyncio.to_thread(work, *args, **kwargs) if size > _LONG else work(*args, **kwargs)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, and cancel it if the client goes, or if this is cancelled."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
