"""`benchmark` as scripts for MindSpore Lite call it: flags, lines that they look for, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from pinnace.cli.benchmark import main
from pinnace.cli.benchmark_flags import check, parser
from pinnace.errors import ArgumentValueError

API = Path(__file__).parents[1] / "data" / "api"
ADD, DENSE = API / "add.onnx", API / "dense.onnx"
SPEED = (
    r"Model = (\S+), NumThreads = (\d+), MinRunTime = (\S+) ms, MaxRuntime = (\S+) ms, AvgRunTime = (\S+) ms"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, Path]:
    """The inputs of ADD as files, and what onnxruntime computes of them as `benchmarkDataFile` has it."""
    arrays = [np.random.default_rng(i).normal(size=(3, 4, 5)).astype(np.float32) for i in (1, 2)]
    for name, array in zip("xy", arrays, strict=True):
        array.tofile(tmp_path / f"{name}.bin")
    session = ort.InferenceSession(ADD, providers=["CPUExecutionProvider"])
    (total,) = session.run(None, dict(zip("xy", arrays, strict=True)))
    text = f"sum 3 3 4 5\n{' '.join(map(str, total.ravel().tolist()))}\n"
    (tmp_path / "expected.txt").write_text(text, encoding="utf-8")
    return f"{tmp_path}/x.bin,{tmp_path}/y.bin", tmp_path / "expected.txt"


def benchmark(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it printed."""
    code = 0
    try:
        main(flags)
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_time_of_a_model_is_on_the_line_that_scripts_parse(capsys) -> None:
    flags = ("--loopCount=4", "--warmUpLoopCount=1", "--numThreads=1", "--inputShapes=5,3", "--timeProfiling")
    code, out, _ = benchmark(capsys, f"--modelFile={DENSE}", *flags)
    lines = out.splitlines()
    assert (code, lines[-1]) == (0, "Run Benchmark dense.onnx Success.")
    name, threads, *times = re.fullmatch(SPEED, lines[-2]).groups()
    assert (name, threads) == ("dense.onnx", "1")
    least, most, mean = map(float, times)
    assert 0 < least <= mean <= most
    for line in (
        "Resize Dims: 5 3 ",
        "Running warm up loops...",
        "Running benchmark loops...",
        "LoopCount = 4",
    ):
        assert line in lines
    assert [line.split()[0] for line in lines if line.startswith("op")] == ["opName", "opType"]


@pytest.mark.parametrize("shape", ["3 3 4 5", "4 3 4 5 1"])
def test_outputs_that_are_as_expected_pass(files, capsys, shape: str) -> None:
    inputs, expected = files
    expected.write_text(expected.read_text(encoding="utf-8").replace("3 3 4 5", shape), encoding="utf-8")
    flags = f"--inDataFile={inputs}", f"--benchmarkDataFile={expected}", "--cosineDistanceThreshold=0.999"
    code, out, _ = benchmark(capsys, f"--modelFile={ADD}", *flags)
    assert (code, out.splitlines()[-1]) == (0, "Run Benchmark add.onnx Success.")
    assert "Mean bias of node/tensor sum : 0%\nMean bias of all nodes/tensors: 0%\n" in out
    assert float(re.search(r"Cosine distance of all nodes/tensors: (\S+)", out)[1]) == pytest.approx(1)
    assert "Model = " not in out


def test_a_bias_above_the_threshold_fails(files, capsys) -> None:
    inputs, expected = files
    name, values = expected.read_text(encoding="utf-8").splitlines()
    wrong = np.array(values.split(), float) * 1.02  # |1 - 1.02| / 1.02 is 1.961 %
    expected.write_text(f"{name}\n{' '.join(map(str, wrong))}\n", encoding="utf-8")
    flags = f"--modelFile={ADD}", f"--inDataFile={inputs}", f"--benchmarkDataFile={expected}"
    code, out, err = benchmark(capsys, *flags)
    assert (code, err.splitlines()[-1]) == (255, "Run Benchmark add.onnx Failed : -1")
    bias = float(re.search(r"Mean bias of all nodes/tensors: (\S+)%", out)[1])
    assert bias == pytest.approx(100 * 0.02 / 1.02, rel=1e-4)
    assert "Mean bias of all nodes/tensors is too big" in err
    assert benchmark(capsys, *flags, "--accuracyThreshold=2")[0] == 0
    cosine = benchmark(capsys, *flags, "--accuracyThreshold=2", "--cosineDistanceThreshold=1.1")
    assert cosine[0] == 255
    assert "Mean cosine distance of all nodes/tensors is too small" in cosine[2]


def test_a_runner_is_measured_with_several_clients(files, capsys) -> None:
    inputs, expected = files
    flags = ("--enableParallelPredict=true", "--workersNum=1", "--parallelNum=3", "--parallelTaskNum=2")
    rest = "--inputShape=x:3,4,5;y:3,4,5", f"--inDataFile={inputs}", f"--benchmarkDataFile={expected}"
    code, out, _ = benchmark(capsys, f"--modelFile={ADD}", "--numThreads=1", *flags, *rest)
    assert (code, out.splitlines()[-1]) == (0, "Run Benchmark add.onnx Success.")
    ran = re.findall(r"parallel index: (\d) \| task index: (\d) \| predict time: \S+ ms", out)
    assert sorted(ran) == [(str(i), str(task)) for i in range(3) for task in range(2)]
    assert len(re.findall(r"warm up index: \d \| time: \S+ ms", out)) == 3
    assert re.search(r"parallel predict init time: \S+ ms\nparallel predict all run time: \S+ ms\n", out)
    assert out.count("Mean bias of all nodes/tensors: 0%") == 6


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--foo=1",), "--foo"),
        (("--modelFile=none.ms",), "Run Benchmark none.ms Failed : -1"),
        ((), "modelPath is required"),
        ((f"--modelFile={ADD}", "--loopCount=0"), "LoopCount:0 must be greater than 0"),
        ((f"--modelFile={ADD}", "--numThreads=0"), "numThreads:0 must be greater than 0"),
        ((f"--modelFile={ADD}", "--device=NPU"), "Device type:NPU is not supported"),
        ((f"--modelFile={ADD}", "--modelType=ONNX"), "Invalid model type: ONNX"),
        ((f"--modelFile={ADD}", "--enableParallelPredict"), "needs the shapes of the inputs: --inputShape"),
        ((f"--modelFile={ADD}", "--inputShape=x:3"), "the inputs of the model are x, y"),
        ((f"--modelFile={ADD}", f"--inDataFile={ADD},{ADD}"), "Input binary file size error, required: 240"),
        ((f"--modelFile={ADD}", f"--inDataFile={ADD}"), "1 files for 2 inputs"),
        ((f"--modelFile={ADD}", "--benchmarkDataFile=none"), "none: cannot be read as a reference"),
    ],
)
def test_what_is_wrong_is_named_and_the_exit_code_is_255(capsys, flags: tuple[str, ...], text: str) -> None:
    code, out, err = benchmark(capsys, *flags)
    assert code == 255
    assert text in err
    assert "Success" not in out


@pytest.mark.parametrize("device", ["GPU", "Ascend"])
def test_devices_and_their_numbers(capsys, monkeypatch, device: str) -> None:
    monkeypatch.setenv("PINNACE_SIMULATE", "gpu:2,ascend:2")
    flags = f"--device={device}", "--deviceId=1", "--rankId=0", "--enableFp16=true", "--loopCount=1"
    assert benchmark(capsys, f"--modelFile={ADD}", *flags)[0] == 0
    code, _, err = benchmark(capsys, f"--modelFile={ADD}", f"--device={device}", "--deviceId=2")
    assert (code, f"{device.lower()}:2 is not available" in err) == (255, True)


def test_flags_without_effect_are_named_once(capsys) -> None:
    flags = "--loopCount=1", "--perfProfiling=true", "--delegateMode=CoreML", "--enableFp16=false"
    code, _, err = benchmark(capsys, f"--modelFile={ADD}", *flags)
    assert code == 0
    assert err.count("--perfProfiling has no effect") == err.count("--delegateMode has no effect") == 1
    assert err.count("has no effect") == 2


# MindSpore Lite's page "Benchmark Tool" for cloud-side inference: "Parameter Description"
DEFAULTS = {
    "modelType": "MindIR", "device": "CPU", "cpuBindMode": 1, "loopCount": 10, "numThreads": 2,
    "enableFp16": False, "warmUpLoopCount": 3, "timeProfiling": False, "perfProfiling": False,
    "benchmarkDataType": "FLOAT", "accuracyThreshold": 0.5, "cosineDistanceThreshold": -1.1,
    "deviceId": -1, "rankId": -1, "enableParallelPredict": False, "parallelNum": 2, "parallelTaskNum": 2,
    "workersNum": 2, "interOpParallelNum": 1, "enableParallel": False, "perfEvent": "CYCLE",
}  # fmt: skip


def test_flags_that_are_left_out_have_mindspore_lites_defaults() -> None:
    assert DEFAULTS.items() <= vars(parser().parse_args([])).items()


@pytest.mark.parametrize(
    ("text", "value"), [("", True), ("=true", True), ("=1", True), ("=False", False), ("=0", False)]
)
def test_a_switch_is_on_if_it_is_given_alone(text: str, value: bool) -> None:
    assert parser().parse_args([f"--enableFp16{text}"]).enableFp16 is value
    assert parser().parse_args(["--enableFp16", "--no-enableFp16"]).enableFp16 is False


def test_the_first_lines_show_the_flags(capsys) -> None:
    flags = (
        "--modelFile=m.ms", "--inDataFile=in.bin", "--configFile=c.ini", "--loopCount=7", "--numThreads=3",
        "--warmUpLoopCount=0", "--accuracyThreshold=1.5", "--enableFp16", "--benchmarkDataFile=out.txt",
        "--GroupInfoFile=g.pb", "--interOpParallelNum=2", "--benchmarkDataType=INT8", "--cpuBindMode=2",
        "--device=GPU", "--modelType=MindIR_Lite", "--cosineDistanceThreshold=0.25",
    )  # fmt: skip
    check(parser().parse_args(flags))
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "ModelPath = m.ms", "ModelType = MindIR_Lite", "InDataPath = in.bin", "GroupInfoFile = g.pb",
        "ConfigFilePath = c.ini", "InDataType = bin", "LoopCount = 7", "DeviceType = GPU",
        "AccuracyThreshold = 1.5", "CosineDistanceThreshold = 0.25", "WarmUpLoopCount = 0", "NumThreads = 3",
        "InterOpParallelNum = 2", "Fp16Priority = 1", "EnableParallel = 0", "calibDataPath = out.txt",
        "EnableGLTexture = 0", "CalibDataType = INT8", "cpuBindMode = MID_CPU",
    ]  # fmt: skip
    assert captured.err == ""


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--loopCount=0", "LoopCount:0 must be greater than 0"),
        ("--cpuBindMode=3", "cpuBindMode:3 must be 0, 1 or 2"),
        ("--benchmarkDataType=BOOL", "CalibDataType not supported: BOOL"),
        ("--parallelNum=0", "must not be negative, the first two not 0"),
        ("--workersNum=0", "must not be negative, the first two not 0"),
        ("--warmUpLoopCount=-1", "must not be negative, the first two not 0"),
    ],
)
def test_numbers_below_the_least_are_refused(flag: str, message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        check(parser().parse_args(["--modelFile=m.ms", flag]))
    least = ("--loopCount=1", "--numThreads=1", "--parallelNum=1", "--workersNum=1", "--warmUpLoopCount=0")
    check(parser().parse_args(["--modelFile=m.ms", *least, "--cpuBindMode=0"]))


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--provider=acl", "the engine is that of the context"),
        ("--enableParallel", "interOpParallelNum runs operators in parallel"),
        ("--perfEvent=CACHE", "no engine reads the counters"),
        ("--cryptoLibPath=x", "the package cryptography does"),
        ("--enableGLTexture", "no engine uses OpenGL"),
        ("--enableSharedThreadPool", "workers always share their threads"),
        ("--threadNumLimitPerWorker=1", "workers share their threads"),
        ("--threadNumRemainingPerWorker=1", "workers share their threads"),
    ],
)
def test_a_flag_without_effect_says_why(capsys, flag: str, reason: str) -> None:
    check(parser().parse_args(["--modelFile=m.ms", flag]))
    name = flag.partition("=")[0]
    assert f"benchmark: {name} has no effect: {reason}" in capsys.readouterr().err
