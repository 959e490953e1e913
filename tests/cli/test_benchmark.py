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
    assert len([line for line in lines if re.fullmatch(r"PrepareTime = [\d.e+]+ ms", line)]) == 1
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


def test_a_closed_stdout_leaves_the_error_on_stderr(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    code, _, err = benchmark(capsys, "--modelFile=none.ms")
    assert (code, err.splitlines()[-1]) == (255, "Run Benchmark none.ms Failed : -1")


@pytest.mark.parametrize(
    ("place", "flags"),
    [
        ("timing.spans", ()),
        ("throughput.served", ("--enableParallelPredict", "--inputShape=x:3,4,5;y:3,4,5")),
    ],
)
def test_ctrl_c_ends_the_command_with_130(capsys, monkeypatch, place: str, flags: tuple[str, ...]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"pinnace.bench.{place}", interrupted)
    code, out, err = benchmark(capsys, f"--modelFile={ADD}", *flags)
    assert (code, "Success" in out, "Traceback" in err) == (130, False, False)


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


@pytest.fixture
def opened(monkeypatch) -> list[tuple]:
    """The arguments with which models are opened; none is."""
    seen = []

    def build(_, path, kind, context, config, dec_key=b""):
        seen.append((path, kind, context, config, dec_key))
        raise ArgumentValueError("seen")

    monkeypatch.setattr("pinnace.Model.build_from_file", build)
    return seen


def test_flags_reach_the_context(capsys, opened, tmp_path) -> None:
    flags = "--numThreads=3", "--interOpParallelNum=2", "--cpuBindMode=2", "--cpuCoreList=0,1", "--enableFp16"
    (tmp_path / "groups.json").touch()
    benchmark(capsys, "--modelFile=m.mindir", *flags, f"--GroupInfoFile={tmp_path}/groups.json")
    benchmark(capsys, "--modelFile=m.mindir", "--cpuBindMode=0")
    (_, _, context, _, _), (_, _, plain, _, _) = opened
    cpu = context.cpu
    assert (cpu.thread_num, cpu.inter_op_parallel_num, cpu.thread_affinity_mode) == (3, 2, 2)
    assert (cpu.thread_affinity_core_list, cpu.precision_mode) == ([0, 1], "preferred_fp16")
    assert context.group_info_file == f"{tmp_path}/groups.json"
    assert (plain.target, plain.cpu.thread_num, plain.cpu.precision_mode) == (["cpu"], 2, "enforce_fp32")
    assert (plain.cpu.thread_affinity_mode, plain.cpu.thread_affinity_core_list) == (0, [])
    assert benchmark(capsys, "--modelFile=m", "--cpuCoreList=0,x")[2].startswith(
        "benchmark: cpuCoreList: 'x'"
    )


@pytest.mark.parametrize(("device", "precision"), [("GPU", "preferred_fp16"), ("Ascend", "")])
def test_the_number_of_a_device_is_a_flag_or_else_a_variable(
    capsys, opened, monkeypatch, device: str, precision: str
) -> None:
    flags = "--modelFile=m.mindir", f"--device={device}", "--enableFp16"
    benchmark(capsys, *flags)
    monkeypatch.setenv(f"{device.upper()}_DEVICE_ID", "3")
    benchmark(capsys, *flags)
    benchmark(capsys, *flags, "--deviceId=0", "--rankId=1")
    contexts = [getattr(context, device.lower()) for _, _, context, _, _ in opened]
    assert [one.device_id for one in contexts] == [0, 3, 0]
    assert {one.precision_mode for one in contexts} == {precision}
    if device == "Ascend":
        assert [one.rank_id for one in contexts] == [0, 0, 1]
    monkeypatch.setenv(f"{device.upper()}_DEVICE_ID", "first")
    assert "DEVICE_ID: 'first' is not a whole number" in benchmark(capsys, *flags)[2]


def test_the_kind_of_a_model_is_its_suffix_and_its_key_is_hexadecimal(capsys, opened) -> None:
    for name in ("m.ms", "M.ONNX", "m.mindir", "m"):
        benchmark(capsys, f"--modelFile={name}", "--decryptKey=00ff", "--configFile=c.ini")
    assert [(path, kind.name, config, key) for path, kind, _, config, key in opened] == [
        ("m.ms", "MINDIR_LITE", "c.ini", b"\x00\xff"), ("M.ONNX", "ONNX", "c.ini", b"\x00\xff"),
        ("m.mindir", "MINDIR", "c.ini", b"\x00\xff"), ("m", "MINDIR", "c.ini", b"\x00\xff"),
    ]  # fmt: skip
    assert "must be hexadecimal digits" in benchmark(capsys, "--modelFile=m", "--decryptKey=x")[2]
    shapes = "--enableParallelPredict", "--inputShapes=1", "--decryptKey=00"
    assert "opens no encrypted models" in benchmark(capsys, "--modelFile=m", *shapes)[2]


def test_a_profile_has_a_row_for_each_node_and_operator(capsys) -> None:
    flags = "--loopCount=4", "--warmUpLoopCount=1", "--inputShapes=5,3", "--timeProfiling"
    lines = benchmark(capsys, f"--modelFile={DENSE}", *flags)[1].splitlines()
    titles = [place for place, line in enumerate(lines) if line.startswith(("opName", "opType"))]
    for place, end in zip(titles, [titles[1] - 1, len(lines) - 2], strict=True):
        assert lines[place - 1] == "-" * 73
        assert lines[place].split("\t")[1].strip() == "avg(ms)"
        rows = [[cell.strip() for cell in line.split("\t")] for line in lines[place + 1 : end]]
        assert sum(float(share) for _, _, share, _, _ in rows) == pytest.approx(1, abs=1e-4)
        for _, mean, _, calls, total in rows:
            assert int(calls) % 4 == 0
            assert float(mean) == pytest.approx(float(total) / 4, abs=2e-6)


def test_inputs_and_outputs_are_shown_beside_what_is_expected(files, capsys) -> None:
    inputs, expected = files
    flags = f"--modelFile={ADD}", f"--inDataFile={inputs}", f"--benchmarkDataFile={expected}"
    out = benchmark(capsys, *flags)[1]
    x, _ = (np.fromfile(file, np.float32) for file in inputs.split(","))
    shown = expected.read_text(encoding="utf-8").splitlines()[1].split()
    assert f"MarkAccuracy\nInData 0: {' '.join(f'{value:g}' for value in x[:20])} \nInData 1: " in out
    assert f"Data of node sum : {' '.join(f'{float(value):g}' for value in shown[:50])} \n" in out
    assert f"{'=' * 55}\n" in out
    assert "Mean cosine" not in out
    once = "--enableParallelPredict", "--parallelNum=1", "--parallelTaskNum=1", "--inputShape=x:3,4,5;y:3,4,5"
    assert "\nInData 0: " in benchmark(capsys, *flags, *once)[1]
    np.full_like(x, np.inf).tofile(inputs.partition(",")[0])
    code, out, err = benchmark(capsys, *flags)
    assert code == 255
    assert "Run MarkAccuracy error: -1\n" in out
    assert "Output tensor has nan or inf data, compare fail\nError in CompareData\n" in err
    expected.write_text(f"sum 3 4 3 5\n{' '.join(shown)}\n", encoding="utf-8")
    message = "Shape of mslite output(3,4,5,) and shape source model output(4,3,5,) are different: sum"
    assert message in benchmark(capsys, *flags)[2]


def test_a_small_bias_is_shown_as_none(files, capsys) -> None:
    inputs, expected = files
    name, values = expected.read_text(encoding="utf-8").splitlines()
    for factor, shown in ((1 + 5e-8, "0"), (1.001, "0.0999001")):
        wrong = np.array(values.split(), float) * factor
        expected.write_text(f"{name}\n{' '.join(map(repr, wrong.tolist()))}\n", encoding="utf-8")
        flags = f"--inDataFile={inputs}", f"--benchmarkDataFile={expected}"
        out = benchmark(capsys, f"--modelFile={ADD}", *flags)[1]
        assert re.search(r"node/tensor sum : (\S+)%", out)[1][:8] == shown[:8]


@pytest.mark.parametrize("flag", ["--foo=1", "--loopCount=x", "--enableFp16=maybe", "stray"])
def test_a_flag_that_cannot_be_read_ends_the_command_at_once(capsys, opened, flag: str) -> None:
    code, out, err = benchmark(capsys, "--modelFile=m.mindir", flag)
    assert (code, out, opened) == (255, "", [])
    assert flag.lstrip("-").partition("=")[0] in err
    assert "usage: benchmark" in err


def test_free_dimensions_are_one_and_a_client_may_ask_once(capsys, tmp_path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(4))
    err = benchmark(capsys, f"--modelFile={DENSE}", f"--inDataFile={tmp_path}/x.bin")[2]
    assert "required: 12, in fact: 4" in err  # [1, 3] of float32
    flags = "--enableParallelPredict", "--parallelNum=1", "--parallelTaskNum=1", "--warmUpLoopCount=0"
    shapes = "--inputShape=x:3,4,5;y:3,4,5", "--workersNum=1", "--numThreads=1"
    code, out, _ = benchmark(capsys, f"--modelFile={ADD}", *flags, *shapes)
    assert (code, out.count("predict time: "), out.count("warm up index")) == (0, 1, 0)
