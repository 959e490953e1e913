"""`python tools/conformance/image.py`: build the manual's image of a server, and ask it what is in a picture.

The model is the package's EfficientNet-Lite0. Prints the size of the image with and without it. The container has
a read-only root, no capabilities and the image's unprivileged user; it must end by SIGTERM within ten seconds.

Needs podman. `--podman`, `--build` and `--run` give what a machine needs beyond the manual, such as
`--podman "podman --cgroup-manager cgroupfs"` and `--build "--network host"`.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import tarfile
import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pinnace

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "server" / "operating.md"
DATA = ROOT / "src" / "pinnace" / "data"
IMAGE = "pinnace-serve:tried"
ADDRESS = "http://127.0.0.1:8000"
TOKEN = "0123456789abcdef0123456789abcdef"
_PATIENCE = 60.0  # seconds until the server is ready


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("podman", "podman"), ("build", ""), ("run", "")):
        parser.add_argument(f"--{name}", default=default)
    options = parser.parse_args()
    podman, run = shlex.split(options.podman), shlex.split(options.run)
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        fill(context)
        subprocess.run([*podman, "build", *shlex.split(options.build), "-t", IMAGE, folder], check=True)
        print(size(podman, run))
        tokens = context / "tokens"
        tokens.write_text(f"{TOKEN} infer read\n")
        serve(podman, [*run, "-v", f"{tokens}:/run/secrets/tokens:ro"])


def fill(context: Path) -> None:
    """Write what the manual's Containerfile finds beside it: a clone, a folder of models, and itself."""
    (found,) = re.findall(r"```dockerfile\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (context / "Containerfile").write_text(found)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(context / "pinnace", filter="data")
    version = context / "models" / "classifier" / "1"
    version.mkdir(parents=True)
    (version / "model.mindir").write_bytes((DATA / "efficientnet_lite0.mindir").read_bytes())
    labels = (DATA / "imagenet_labels.json").read_bytes()
    (version.parent / "labels.json").write_bytes(labels)


def size(podman: list[str], options: list[str]) -> str:
    """Return the size of the image, as podman counts it, and without the models and what is compiled of them."""
    run = [*podman, "image", "inspect", IMAGE]
    (image,) = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)
    count = [*podman, "run", "--rm", *options, "--entrypoint", "du", IMAGE, "-sbc", "/srv", "/opt/pinnace"]
    *_, total = subprocess.run(count, capture_output=True, text=True, check=True).stdout.splitlines()
    whole, models = image["Size"] / 1e6, int(total.split()[0]) / 1e6
    return f"{whole:.0f} MB, {whole - models:.0f} without the models and what is compiled of them"


def serve(podman: list[str], options: list[str]) -> None:
    """Start the image, send it a picture, and end it."""
    command = ["run", "--detach", "--read-only", "--cap-drop", "all", "--network", "host", *options, IMAGE]
    start = time.perf_counter()
    name = subprocess.run([*podman, *command], capture_output=True, text=True, check=True).stdout.strip()
    try:
        while not is_ready():
            assert time.perf_counter() - start < _PATIENCE, "it does not become ready"
            time.sleep(0.02)
        print(f"ready after {time.perf_counter() - start:.1f} s")
        print(f"the picture of a cat: {answer()}")
        subprocess.run([*podman, "kill", "--signal", "TERM", name], check=True, capture_output=True)
        code = subprocess.run([*podman, "wait", name], capture_output=True, timeout=10, check=True).stdout
        print(f"ended by SIGTERM with {int(code)}")
    finally:
        subprocess.run([*podman, "logs", name], check=False)
        subprocess.run([*podman, "rm", "--force", name], check=True, capture_output=True)


def is_ready() -> bool:
    with suppress(URLError, ConnectionError):
        return bool(urlopen(f"{ADDRESS}/v2/health/ready").status == 200)
    return False


def answer() -> str:
    """Return the most probable class of the package's picture of a cat."""
    picture = pinnace.images.load(DATA / "chelsea.png", (224, 224), crop=0.875, scale=1, mean=127, std=128)
    metadata = json.loads(urlopen(asking("")).read())
    (given,), (wanted,) = metadata["inputs"], metadata["outputs"]
    tensor = {"name": given["name"], "datatype": "FP32", "shape": picture.shape}
    tensor["data"] = picture.ravel().tolist()
    output = {"name": wanted["name"], "parameters": {"classification": 1}}
    body = json.dumps({"inputs": [tensor], "outputs": [output]}).encode()
    found = json.loads(urlopen(asking("/infer", body)).read())
    return str(found["outputs"][0]["data"][0])


def asking(what: str, body: bytes | None = None) -> Request:
    return Request(f"{ADDRESS}/v2/models/classifier{what}", body, {"authorization": f"Bearer {TOKEN}"})


if __name__ == "__main__":
    main()
