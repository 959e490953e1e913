"""Compile and run the C++ examples of MindSpore Lite on Pinnace, and print the table of docs/cpp.md.

    python tools/conformance/cpp_examples.py CHECKOUT

CHECKOUT is a clone of mindspore-ai/mindspore-lite. The sources and CMakeLists.txt are used as they are, beside the
built library as their READMEs ask for MindSpore Lite's package (LITE_HOME, or its folders in the example's).
Models take the place of those that the READMEs download; `ascend_model_group_cpp` names its models in the source and
runs in a folder that has them. Devices are simulated (PINNACE_SIMULATE), their memory is the host's: a
`cuda_runtime.h` with the four functions of `device_example_cpp` allocates and copies that.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from pinnace.cpp.build import build

ROOT = Path(__file__).parents[2]
NET = ROOT / "src" / "pinnace" / "data" / "efficientnet_lite0.mindir"

CUDA = """
#pragma once
#include <cstdlib>
#include <cstring>
enum { cudaSuccess, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
inline int cudaMalloc(void **made, size_t size) { return (*made = std::malloc(size)) == nullptr; }
inline int cudaFree(void *freed) { return std::free(freed), 0; }
inline int cudaMemcpy(void *to, const void *from, size_t size, int) { return std::memcpy(to, from, size) == nullptr; }
"""


@dataclass(frozen=True)
class Example:
    folder: str
    runs: tuple[str, ...]  # arguments of each run; {net} and {named} are models
    simulate: str = ""
    note: str = ""
    corrected: tuple[str, str] = ("", "")  # in a source that cannot run as it is
    marks: tuple[str, ...] = ("output data is:",)  # what a run that works prints


CLOUD = "cloud_infer"
EXAMPLES = (
    Example(f"{CLOUD}/quick_start_cpp", ("{net}",)),
    Example(f"{CLOUD}/quick_start_parallel_cpp", ("{net}",)),
    Example(
        f"{CLOUD}/runtime_cpp",
        ("--model_path={net}",),
        note="names the model as its configuration file, which MindSpore Lite reads without a word and Pinnace refuses; "
        "runs with `FLAGS_config_file` in that line",
        corrected=("args.config_file = FLAGS_model_path", "args.config_file = FLAGS_config_file"),
        marks=("tensor name is:",),
    ),
    Example(f"{CLOUD}/ascend_model_group_cpp", ("",), "ascend:1", marks=("finished!",)),
    Example(f"{CLOUD}/gpu_trt_distributed_cpp", ("{net}",), "gpu:1"),
    Example(
        f"{CLOUD}/ascend_ge_distributed_cpp",
        ("{net} 0 0 {ini}",),
        "ascend:1",
        "its CMakeLists.txt links twelve libraries of CANN. One rank: a rank table with one device",
    ),
    Example(
        f"{CLOUD}/device_example_cpp",
        ("{net}",),
        "gpu:1",
        "needs four functions of CUDA: those of the host stand for them. Real devices' memory is not supported",
        marks=("Host data, tensor", "Device data, tensor"),
    ),
    Example("quick_start_cpp", ("{ms}",)),
    Example(
        "runtime_cpp",
        tuple(f"{{named}} {option}" for option in range(6)),
        note="its CMakeLists.txt links Android's library of logs. All six options, with a model of the names in its source",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout.absolute()
    found = next(iter(sorted(checkout.glob("**/examples/cloud_infer"))), None)
    if found is None:
        parser.error(f"{checkout} has no folder examples/cloud_infer")
    os.environ["PINNACE_CACHE_DIR"] = "off"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        home = build(work / "home", {**os.environ, "CXXFLAGS": "-O1"}).folder
        models = _models(work)
        print("| example | compiles unchanged | runs | remark |\n| --- | --- | --- | --- |")
        for example in EXAMPLES:
            print(_row(example, found.parent / example.folder, home, work, models), flush=True)


def _models(work: Path) -> dict[str, str]:
    (work / "cuda_runtime.h").write_text(CUDA)
    (work / "table.json").write_text(
        '{"version": "1.0", "server_count": "1", "status": "completed", "server_list": [{"server_id": "127.0.0.1", '
        '"device": [{"device_id": "0", "device_ip": "127.0.0.1", "rank_id": "0"}]}]}'
    )
    (work / "config.ini").write_text(f"[ascend_context]\nrank_table_file={work}/table.json\n")
    shutil.copy(NET, work / "net.mindir")
    shutil.copy(NET, work / "net0.mindir")  # rank 0 of gpu_trt_distributed_cpp
    subprocess.run(["pinnace", "convert", str(NET), str(work / "net.ms")], check=True, capture_output=True)
    nodes = [
        helper.make_node("ReduceMean", ["graph_input-173", "axes"], ["mean"], keepdims=0),
        helper.make_node("Softmax", ["mean"], ["Softmax-65"]),
    ]
    graph = helper.make_graph(
        nodes,
        "named",
        [helper.make_tensor_value_info("graph_input-173", TensorProto.FLOAT, [1, 224, 224, 3])],
        [helper.make_tensor_value_info("Softmax-65", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor("axes", TensorProto.INT64, [2], [1, 2])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
        work / "named.onnx",
    )
    files = {"net": "net.mindir", "ms": "net.ms", "named": "named.onnx", "ini": "config.ini"}
    return {name: str(work / file) for name, file in files.items()}


def _row(example: Example, source: Path, home: Path, work: Path, models: dict[str, str]) -> str:
    folder = work / example.folder
    shutil.copytree(source, folder)
    for part in ("include", "lib"):
        (folder / part).symlink_to(home / part)
    for name in ("path_to_model1", "path_to_model2"):
        shutil.copy(NET, folder / name)
    how, program, error = _compile(folder, home, work)
    ran = _run(example, program, folder, models) if program else ""
    if ran.startswith("no") and example.corrected[0]:
        main_ = folder / "main.cc"
        main_.write_text(main_.read_text().replace(*example.corrected))
        corrected = _run(example, _compile(folder, home, work)[1], folder, models)
        ran = f"no; with one line corrected: {corrected}"
    remark = "; ".join(filter(None, (error, example.note)))
    shutil.rmtree(folder)
    return f"| `{example.folder}` | {how} | {ran} | {remark} |"


def _compile(folder: Path, home: Path, work: Path) -> tuple[str, Path | None, str]:
    """Build with the example's CMakeLists.txt, else its source alone."""
    environment = {**os.environ, "LITE_HOME": str(home), "CPATH": str(work)}
    build_folder = folder / "out"
    for command in (["cmake", "-S", ".", "-B", build_folder], ["cmake", "--build", build_folder]):
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    made = [path for path in build_folder.glob("*_cpp") if path.is_file()] + [
        path for path in build_folder.glob("*distributed") if path.is_file()
    ]
    if made:
        return "yes, by its CMakeLists.txt", made[0], ""
    program = folder / "program"
    options = [
        "-std=c++17",
        f"-I{home}",
        f"-L{home}/lib",
        f"-Wl,-rpath,{home}/lib",
        "-lmindspore-lite",
        "-pthread",
    ]
    sources = sorted(map(str, folder.glob("*.cc")))
    alone = subprocess.run(
        ["c++", *sources, "-o", program, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if alone.returncode:
        return "no", None, (alone.stderr or done.stderr).splitlines()[0]
    return "yes, its source", program, ""


def _run(example: Example, program: Path, folder: Path, models: dict[str, str]) -> str:
    environment = {**os.environ, "PINNACE_SIMULATE": example.simulate}
    for arguments in example.runs:
        command = [str(program), *arguments.format(**models).split()]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        output = done.stdout + done.stderr
        missing = [mark for mark in example.marks if mark not in output]
        if done.returncode or missing or "Failed to" in output:
            lines = [line for line in output.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
            return f"no: {lines[-1][:200]}"
    return f"yes, on a simulated {example.simulate.partition(':')[0]} device" if example.simulate else "yes"


if __name__ == "__main__":
    main()
