"""Arguments and options of commands that several share, or that a command has many of."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pinnace.options.table import Engine

LIST = "N[,N...]"
MOST_SECONDS = 1 << 31
"""Limit of durations, as of settings of models; infinity is no number of nanoseconds."""

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .mindir, .ms or .onnx file.")]
InputFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=]FILE",
        help="A .npy, .npz, .bin or picture file, numbers (rate=16000), or - for .npy on stdin.",
    ),
]
InputShapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="[NAME=]1,3,224,224", help="Resize an input. Repeat for more inputs."),
]
ManyShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="[NAME=]1,3,224,224",
        help="Resize an input. Repeat for more inputs, or more shapes of one; 1..8,3 is 1,3 2,3 4,3 and 8,3.",
    ),
]  # fmt: skip
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="A configuration file (.ini).")]
Script = Annotated[
    list[str],
    typer.Argument(
        metavar="script.py|-m module [ARGS]...", help="The script, -m module or -c code, and its arguments."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

OutputFolder = Annotated[
    Path | None,
    typer.Option("--save", metavar="DIR", help="Folder for the outputs, as NAME.npy.", file_okay=False),
]
Threads = Annotated[int, typer.Option(min=0, metavar="N", help="Threads of the model; 0 is automatic.")]
LabelsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File of class names, one per line or JSON: show the 5 best."),
]
PictureSize = Annotated[
    str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Picture: size where the model leaves it free.")
]
PictureCrop = Annotated[
    float | None,
    typer.Option(
        metavar="PART", help="Picture: part to keep, from its center; without this it is stretched."
    ),
]
PictureScale = Annotated[
    str | None,
    typer.Option(
        metavar="FACTOR",
        help="Picture: value = (pixel * scale - mean) / std, pixel in 0..255.",
        show_default="1/255; 1 for integers",
    ),
]
PictureMean = Annotated[str, typer.Option(metavar="M[,M,M]", help="Picture: one number, or one per channel.")]
PictureStd = Annotated[str, typer.Option(metavar="S[,S,S]", help="Picture: one number, or one per channel.")]
PictureLayout = Annotated[
    Literal["NCHW", "NHWC"] | None, typer.Option(help="Picture: layout where the shape leaves it open.")
]

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="Measure MODEL of a server: http://HOST:PORT or grpc://HOST:PORT."
    ),
]

ThreadsInTurn = Annotated[
    str, typer.Option(metavar=LIST, help="Threads of the model, each in turn; 0 is automatic.")
]
WorkersInTurn = Annotated[
    str | None,
    typer.Option(metavar=LIST, help="Throughput: workers, each in turn; the default is 1 and all cores."),
]
Clients = Annotated[
    str,
    typer.Option(metavar=LIST, help="Throughput: concurrent clients; 0 skips it."),
]
Rates = Annotated[
    str | None,
    typer.Option(
        metavar="RATE[,RATE...]",
        help="Requests per second, at random times, without waiting for answers; latency from arrival.",
    ),
]
ShapesInTurn = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="[NAME=]1,3,224,224", help="Resize an input. Several for one input: each in turn."
    ),
]
BatchesInTurn = Annotated[
    str | None,
    typer.Option(metavar=LIST, help="Batch sizes, each in turn, if the first dimension is free."),
]
SecondsEach = Annotated[
    float,
    typer.Option(min=0.001, max=MOST_SECONDS, metavar="SECONDS", help="How long each measurement lasts."),
]
RunsEach = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Predictions per measurement and client, instead of --seconds."),
]
WarmUp = Annotated[
    int, typer.Option(min=0, metavar="N", help="Predictions before each measurement, not counted.")
]
Provider = Annotated[Literal["automatic", Engine], typer.Option(help="The engine.")]
Precision = Annotated[Literal["enforce_fp32", "preferred_fp16"], typer.Option(help="The precision.")]
Profile = Annotated[bool, typer.Option("--profile", help="Show which operators take the time.")]
TraceFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="Write the profile for ui.perfetto.dev or chrome://tracing."),
]
ReferenceFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Expected outputs: .npz, .npy, or text of MindSpore Lite's benchmark tool.",
    ),
]
Threshold = Annotated[
    float, typer.Option(min=0, metavar="PERCENT", help="Accuracy: largest mean relative error, in percent.")
]
CosineThreshold = Annotated[
    float | None,
    typer.Option(min=-1, max=1, metavar="COSINE", help="Accuracy: smallest mean cosine, 1 for the same."),
]
PlotFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw latency and throughput: .svg or .png.")
]

ThreadCounts = Annotated[
    str | None, typer.Option(metavar=LIST, help="Threads of a worker; the default is 1 and all cores.")
]
WorkerCounts = Annotated[
    str | None, typer.Option(metavar=LIST, help="Workers; the default is 1 and all cores.")
]
Precisions = Annotated[
    str,
    typer.Option(
        metavar="NAME[,NAME]",
        help="enforce_fp32, preferred_fp16. A build uses measurements of its own precision.",
    ),
]
SecondsInAll = Annotated[
    float | None,
    typer.Option(
        min=0, max=MOST_SECONDS, metavar="SECONDS", help="Total time to measure: 30, with --max-error 120."
    ),
]
MaxLatency = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="MS",
        help="Largest p99, waiting included. Slower settings are not stored; of the others, builds leaving "
        "workers open take the one with the highest throughput.",
    ),
]
MadeUp = Annotated[
    bool,
    typer.Option("--made-up", help="With --max-error: store forms with fewer bits for made-up inputs too."),
]
ErrorBound = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="BOUND",
        help="Largest relative error against onnxruntime in fp32; 1e-4, and 0.02 for preferred_fp16.",
    ),
]
Forget = Annotated[bool, typer.Option("--forget", help="Delete the measurements of this model.")]
MaxError = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="ERROR",
        help="Allow fewer bits (weights of 16, 8 or 4, products of integers) while outputs stay within this "
        "relative error.",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="With --max-error: typical inputs, one prediction a file (.npz for several inputs), "
        "to calibrate with and to compare.",
        exists=True,
        file_okay=False,
    ),
]

AnyModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A .mindir, .ms or .onnx file; a .tflite or .pb file or a SavedModel (its folder) of "
        "TensorFlow; a .pt, .pth or .pt2 file of PyTorch; a .prototxt of Caffe, with --weights.",
    ),
]
ConvertedFile = Annotated[
    Path,
    typer.Argument(metavar="OUTPUT", help="The file to write, .mindir or .ms; .mindir is appended."),
]
CaffeWeights = Annotated[Path | None, typer.Option(metavar="FILE", help="The .caffemodel of a Caffe model.")]
Framework = Annotated[
    Literal["ONNX", "MINDIR", "TFLITE", "TF", "CAFFE", "PYTORCH"] | None,
    typer.Option("--from", help="Framework of the model; without it the suffix tells it."),
]
FixedShapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=1,128", help="Fix the shape of an input. Repeat for more."),
]
Optimizations = Annotated[
    Literal["none", "general", "gpu_oriented", "ascend_oriented"],
    typer.Option(help="none keeps all nodes; ascend_oriented reads the shapes of --config."),
]
Half = Annotated[bool, typer.Option("--fp16", help="Store float32 weights in float16.")]
ChannelsLast = Annotated[bool, typer.Option("--nhwc", help="Take pictures as NHWC.")]
Check = Annotated[bool, typer.Option("--check", help="Compare the results with the model's.")]
Int32 = Annotated[
    bool, typer.Option("--int32", help="Make ports of int64 int32 and of float64 float32, as converter_lite.")
]
ConversionFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Configuration that asks for quantization or, with ascend_oriented, for shapes.",
        dir_okay=False,
    ),
]
EncryptKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Encrypt the result, by the key in this file, in hexadecimal.",
        dir_okay=False,
    ),
]
DecryptKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Key of an encrypted .mindir, in hexadecimal.", dir_okay=False),
]
KeyMode = Annotated[Literal["AES-GCM", "AES-CBC", "SM4-CBC"], typer.Option(help="Encryption of both keys.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Run a model of PyTorch or TensorFlow, a program, to convert it.")
]
