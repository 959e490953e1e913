"""Clients of an overloaded server, in a process of their own: `python -m tests.server.senders http|grpc ...`.

Requests arrive as a Poisson process, whether or not earlier ones are answered. Of 20, 15 wait for their
answer, 4 have a deadline, 1 goes. Other clients send garbage, too much, or slowly. Prints JSON: how requests
ended, and the seconds that each took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter, defaultdict
from contextlib import suppress
from time import perf_counter
from typing import Any

import aiohttp
import grpc
import numpy as np
import tritonclient.http
from tritonclient.http import InferenceServerClient

from pinnace.server.grpc import SERVICE, message

ENDED = {
    200: "answered", 429: "refused", 504: "expired",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "refused", grpc.StatusCode.DEADLINE_EXCEEDED: "expired",
}  # fmt: skip
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def arrays(rounds: int) -> dict[str, np.ndarray]:
    return {"count": np.array(rounds), "x": np.ones(3, np.float32)}


class Http:
    path = "/v2/models/rounds/infer"

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> None:
        everything = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(f"http://127.0.0.1:{self._port}", connector=everything)

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    def request(self, rounds: int, timeout: float) -> tuple[bytes, dict[str, str]]:
        given = []
        for name, array in arrays(rounds).items():
            given.append(
                tritonclient.http.InferInput(name, array.shape, "INT64" if name == "count" else "FP32")
            )
            given[-1].set_data_from_numpy(array)
        body, length = InferenceServerClient.generate_request_body(
            given, timeout=round(timeout * 1e6) or None
        )
        return body, {"Inference-Header-Content-Length": str(length)}

    async def ask(self, request: tuple[bytes, dict[str, str]]) -> Any:
        async with self._session.post(self.path, data=request[0], headers=request[1]) as response:
            await response.read()
            return response.status

    async def misbehave(self, dice: random.Random) -> None:
        head = f"POST {self.path} HTTP/1.1\r\nhost: x\r\ncontent-length: ".encode()
        match dice.randrange(3):
            case 0:
                await sent(self._port, dice.randbytes(300), 0.0)
            case 1:
                await sent(self._port, head + b"1000000\r\n\r\n" + b"x" * 1000, 0.05)
            case _:
                await sent(self._port, head + b"1000\r\n", 1.0)


class Grpc:
    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{self._port}")
        path = f"/{SERVICE}/ModelInfer"
        self._call, self._open = self._channel.unary_unary(path), self._channel.stream_unary(path)

    async def __aexit__(self, *error: object) -> None:
        await self._channel.close()

    def request(self, rounds: int, timeout: float) -> bytes:
        made = message("InferRequest")(model_name="rounds")
        for name, array in arrays(rounds).items():
            made.inputs.add(name=name, datatype="INT64" if name == "count" else "FP32", shape=array.shape)
            made.raw_input_contents.append(array.tobytes())
        if timeout:
            made.parameters["timeout"].int64_param = round(timeout * 1e6)
        return made.SerializeToString()

    async def ask(self, request: bytes) -> Any:
        try:
            await self._call(request)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return 200

    async def misbehave(self, dice: random.Random) -> None:
        match dice.randrange(4):
            case 0:
                await sent(self._port, dice.choice([b"", _PREFACE]) + dice.randbytes(300), 0.05)
            case 1:
                await self.ask(dice.randbytes(300))
            case 2:
                await self.ask(bytes(1_000_000))
            case _:
                slow = self._open()
                await asyncio.sleep(1)
                slow.cancel()


async def sent(port: int, data: bytes, wait: float) -> None:
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        await asyncio.sleep(wait)
        await asyncio.wait_for(reader.read(100), 5) if not wait else None
        writer.close()


class Senders:
    def __init__(self, door: Http | Grpc, rounds: int, timeout: float) -> None:
        self._door, self._dice = door, random.Random(0)
        self._plain, self._hasty = door.request(rounds, 0), door.request(rounds, timeout)
        self.outcomes, self.seconds = Counter[str](), defaultdict[str, list[float]](list)

    async def send(self, rate: float, seconds: float) -> None:
        """Send until the time is over, and wait for all answers."""
        tasks, due = set[asyncio.Task[None]](), perf_counter()
        ended, bad = due + seconds, asyncio.ensure_future(self._misbehave())
        while due < ended:
            await asyncio.sleep(max(0, due - perf_counter()))
            kind = self._dice.choices(("plain", "deadline", "gone"), (15, 4, 1))[0]
            tasks.add(task := asyncio.ensure_future(self._one(kind)))
            task.add_done_callback(tasks.discard)
            due += self._dice.expovariate(rate)
        if tasks:
            _, never = await asyncio.wait(list(tasks), timeout=60)
            self.outcomes.update(["never answered"] * len(never))
        bad.cancel()

    async def _one(self, kind: str) -> None:
        asking = self._door.ask(self._hasty if kind == "deadline" else self._plain)
        start = perf_counter()
        try:
            if kind == "gone":
                await asyncio.wait_for(asking, self._dice.uniform(0.001, 0.05))
            status = await asking if kind != "gone" else "gone"
        except TimeoutError:
            status = "gone"
        except (OSError, aiohttp.ClientError) as error:
            status = f"lost: {type(error).__name__}"
        ended = "gone" if kind == "gone" else ENDED.get(status, str(status))
        self.outcomes[f"{kind} {ended}"] += 1
        self.seconds[f"{kind} {ended}"].append(perf_counter() - start)

    async def _misbehave(self) -> None:
        running = set[asyncio.Task[None]]()
        while True:
            await asyncio.sleep(0.1)
            running.add(task := asyncio.ensure_future(self._door.misbehave(self._dice)))
            task.add_done_callback(running.discard)
            self.outcomes["misbehaved"] += 1


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.server.senders", description=__doc__)
    parser.add_argument("door", choices=("http", "grpc"))
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rounds", type=int, required=True, help="work of a request")
    parser.add_argument("--timeout", type=float, required=True, help="seconds of a deadline")
    options = parser.parse_args()
    door = Http(options.port) if options.door == "http" else Grpc(options.port)
    senders = Senders(door, options.rounds, options.timeout)
    async with door:
        await senders.send(options.rate, options.seconds)
    print(json.dumps({"outcomes": senders.outcomes, "seconds": senders.seconds}))


if __name__ == "__main__":
    asyncio.run(main())
