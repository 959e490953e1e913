"""A service for gunicorn (`app`) and uvicorn (`asgi`): POST an .npy file, get the first output as one.

MODEL=model.onnx gunicorn app:app
MODEL=model.onnx uvicorn app:asgi --workers 2
"""

import io
import os

import numpy as np

import pinnace as mslite

context = mslite.Context()
context.cpu.provider = "onnxruntime"  # OpenVINO does not run in forked workers
context.cpu.thread_num = 1  # other threads would stay behind in gunicorn's master
context.parallel.workers_num = 1
context.parallel.config_info = {"runner": {"max_queue": "100"}}
runner = mslite.ModelParallelRunner()
runner.build_from_file(os.environ["MODEL"], context)

STATUS = {
    mslite.ArgumentTypeError: "400 Bad Request",
    mslite.DataMismatchError: "400 Bad Request",
    mslite.QueueFullError: "503 Service Unavailable",
    mslite.PredictTimeoutError: "504 Gateway Timeout",
}


def app(environ, start_response):
    """Answer a request of WSGI."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        status, answer = "200 OK", written(runner.predict([read(body)], timeout=20))
    except mslite.PinnaceError as error:
        status, answer = STATUS.get(type(error), "500 Internal Server Error"), str(error).encode()
    start_response(status, [("Content-Length", str(len(answer))), ("X-Worker", str(os.getpid()))])
    return [answer]


async def asgi(scope, receive, send):
    """Answer a request of ASGI."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    try:
        status, answer = "200 OK", written(await runner.apredict([read(body)]))
    except mslite.PinnaceError as error:
        status, answer = STATUS.get(type(error), "500 Internal Server Error"), str(error).encode()
    headers = [(b"content-length", b"%d" % len(answer)), (b"x-worker", b"%d" % os.getpid())]
    await send({"type": "http.response.start", "status": int(status[:3]), "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def read(body):
    """Return the array in the bytes of an .npy file."""
    try:
        return np.load(io.BytesIO(body), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise mslite.ArgumentTypeError(f"this is no .npy file: {error}") from None


def written(outputs):
    """Return the first output as the bytes of an .npy file."""
    file = io.BytesIO()
    np.save(file, outputs[0].numpy())
    return file.getvalue()
