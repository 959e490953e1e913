"""What is not compared, and why."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Sequence
from typing import Any

FUNCTIONS = {
    "draws numbers": (
        "*rand*", "*dropout*", "*Dropout*", "*multinomial*", "*bernoulli*", "*normal", "*normal_", "*.uniform*",
        "*.gamma", "*poisson", "*laplace", "*shuffle*", "*sample*candidate*", "*choice*", "*rrelu*", "*RReLU*",
        "*exponential_", "*gumbel*", "*candidate_sampler", "*geometric_", "*log_normal*", "*cauchy*", "*ractional*",
    ),
    "gives memory that nobody wrote": ("*.empty", "*.empty_like", "*.new_empty", "*empty_strided"),
    "leaves the graph: a value of Python, a file, a device, a print": (
        "Tensor.asnumpy", "Tensor.tolist", "Tensor.numpy", "Tensor.item", "Tensor.to", "Tensor.cpu", "Tensor.cuda",
        "Tensor.npu", "Tensor.data_ptr", "Tensor.flush*", "Tensor.get_bytes", "Tensor.asnumpy_of*", "Tensor.hccl*",
        "Tensor.register*", "Tensor.remove*", "Tensor.save*", "Tensor.slice_num*", "Tensor.wait*", "*print*",
        "*summary*", "Tensor.offload*", "Tensor.move_to", "Tensor.pin_memory", "Tensor.untyped_storage",
        "Tensor.storage*", "Tensor.from_numpy", "Tensor.convert_bytes*", "Tensor.set_device*", "Tensor.init_data",
        "Tensor.getitem_index*", "Tensor.setitem_index*", "ops.Assert", "Tensor.from_dlpack", "Tensor.is_*pinned",
        "Tensor.stub*", "Tensor.assign_value*", "Tensor.set_*", "Tensor.check_*", "Tensor.set_",
    ),
    "trains": (
        "*grad*", "*Grad*", "Tensor.backward", "ops.vjp", "ops.jvp", "ops.jac*", "ops.J", "*optim*", "nn.Adam*",
        "nn.*WithLoss*", "nn.Train*", "nn.Eval*", "nn.*Cell*ScalingFactor*", "nn.*LossScale*", "*ctc_loss*",
        "*CTCLoss*", "*rnnt*", "*RNNT*", "nn.*Accumul*", "nn.DistributedGrad*",
    ),
    "exports sizes of 0 for free dimensions": ("nn.MatMul",),
    "speaks with other ranks": ("*all_reduce*", "*all_gather*", "*reduce_scatter*", "*broadcast_object*", "*isend*"),
    "is complex": ("*fft*", "*complex*", "*polar*", "*stft*", "*STFT*", "*real", "*imag", "*angle*", "*conj*", "*.eig", "*.eigvals"),
}  # fmt: skip
"""Functions that are not called, by the reason."""


def reason(name: str) -> str:
    """Why a function is not called; "" where it is."""
    for why, patterns in FUNCTIONS.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return why
    return ""


def undefined(
    name: str,
    given: list[Any],
    result: Any,
    computed: Sequence[Any] = (),
    arguments: Sequence[str] = (),
    free: bool = False,
) -> str:
    """Why MindSpore's result means nothing, for the types and values (`Tree`s) of a call; "" where it does.

    `computed` are those of what it is given that come of earlier calls; `arguments` are Python; `free` is whether
    there are free dimensions.
    """
    floats = [g for g in given if g["dtype"].startswith("float")]
    wild = any(not g["finite"] or g["largest"] > 100 for g in floats)
    nothing = any(0 in g["shape"] for g in given)
    for leaf in leaves(result):
        if wild and "int" in leaf["dtype"] and not _finds_places(leaf):
            return "C++ does not define integers of NaN, infinities and floats beyond their range"
        if leaf["dtype"] not in _TYPES:
            return "no engine has the type"
        if nothing and 0 not in leaf["shape"] and not _OF_NOTHING.search(name):
            return "MindSpore gives memory that nobody wrote for sums, means, ... of nothing"
    found = {
        "nan": any(g["nan"] for g in floats),
        "not finite": any(not g["finite"] for g in floats),
        "-0": any(g["minus_zero"] for g in floats) or "-0.0" in arguments,
    }
    plain = name.rpartition(".")[2].lower().replace("_", "")
    for words, what, why in _STRANGE:
        if any(found[w] for w in what.split(", ")) and re.search(words, plain):
            return why
    if "truncate_div" in name and not all(
        leaf["finite"] and 0 < leaf["largest"] < 100 for leaf in leaves(result)
    ):
        return "over a 0 that is broadcast, MindSpore's quotient has the sign of another element"
    if re.search("mish|Mish", name) and any(not g["finite"] or g["largest"] > 40 for g in floats):
        return "MindSpore's Mish is NaN from 45 on"
    if "erfinv" in name.lower() and any(g["largest"] > 0.95 for g in floats):
        return "MindSpore's Erfinv is off by up to 1 % near 1"
    if re.search(r"\b(any|all)$", name) and any(g["dtype"] != "bool" for g in given):
        return "the truth values that MindSpore makes of numbers are their bytes (docs/limits.md)"
    if re.search("inv|solve|lstsq", plain) and any(not leaf["finite"] for leaf in leaves(result)):
        return "a singular matrix has no inverse"
    if "lgamma" in plain and any(g["dtype"] == "float16" for g in given) and name.startswith("nn."):
        return "MindSpore rounds every term of the series to float16 (docs/limits.md)"
    if "zeta" in name and any(g["dtype"] == "float32" and not g["largest"] < 9 for g in given):
        return "below -9 MindSpore's series ends too early in float32 (docs/limits.md)"
    near = any(0.998 < leaf["largest"] < 1.001 for leaf in leaves(result))
    gates = bool(re.search("rnn|lstm|gru", plain))
    if (near and (gates or "tanh" in plain)) or (gates and any(g["largest"] > 3 for g in floats)):
        return "MindSpore's Tanh is off by up to 1e-4 near 1 (docs/limits.md)"
    if re.search("scatter|gather|index|take", name) and _beyond(name, given, arguments):
        return "MindSpore does what it likes with places beyond a tensor"
    if "topk" in plain and any("int" in g["dtype"] for g in given[:1]):
        return "the places of equal elements are open (docs/limits.md)"
    if re.search("cov|corr", plain) and not all(leaf["finite"] for leaf in leaves(result)):
        return "MindSpore's NaN / 0 is -inf (docs/limits.md)"
    if re.search(r"addcdiv|scatter.*div|\.inv$|reciprocal", name) and any(
        "int" in g["dtype"] and g["zero"] for g in given
    ):
        return "C++ does not define integers over 0"
    if re.search("pool", plain) and any(g["dtype"].startswith("uint") for g in given):
        return "the least unsigned number of MindSpore's pools is 1 (docs/limits.md)"
    if re.search(r"^ops\.scatter_(?!add_with)", name) and any(a.startswith("y") for a in arguments[:1]):
        return "the file does not say whether others read a computed tensor before it is scattered to (docs/limits.md)"
    if re.search("scatter|assign|index_(add|put|copy|fill)", name) and arguments[0] in arguments[1:]:
        return "MindSpore reads what it has just written where a tensor is written to itself"
    if free and re.search("[hvd]split|tensor_split", name) and any("-" in a for a in arguments):
        return "MindSpore exports the place from the end for other dimensions, too"
    if free and re.search("std|var", name) and all("int" in g["dtype"] for g in given):
        return "MindSpore exports float64 where it computes float32 itself"
    if "remainder" in name and any(g["dtype"] == "bool" for g in given):
        return "MindSpore declares bool of what it computes as int64"
    if re.search("binary_cross_entropy$|BCELoss", name) and all(math.prod(g["shape"]) == 1 for g in given):
        return "MindSpore's mean of one element is twice that element (docs/limits.md)"
    if re.search("floordiv|//|remainder|mod|%", plain) and any(g["largest"] > 2**53 for g in given):
        return "MindSpore divides int64 as float64 (docs/limits.md)"
    large = [g for g in given if "int" in g["dtype"] and g["largest"] > 2**31 - 5]
    if large and re.search("hardsigmoid|hsigmoid|hardswish|hswish|mean|var|std", plain):
        return "C++ does not define integers beyond their range"
    halves = [g for g in given if g["dtype"] == "float16"]
    overflown = any(not leaf["finite"] for leaf in leaves(result)) and not found["not finite"]
    overflown = overflown or any(not g["finite"] for g in computed)
    narrow = bool(halves) or any(leaf["dtype"] == "float16" for leaf in leaves(result))
    if narrow and (overflown or any(g["largest"] > 65504 for g in given if "int" in g["dtype"])):
        return "float16 overflows at other places where it is rounded once (docs/limits.md)"
    if re.search("trunc|floor|ceil|round|fix|frac", plain) and any(g in halves for g in computed):
        return "what MindSpore rounds to a whole number in float16 may be less (docs/limits.md)"
    if re.search("sgn|sign|heaviside|bool|nonzero|logical", plain) and any(g["zero"] for g in halves):
        return "what MindSpore rounds to 0 in float16 may be more than 0 (docs/limits.md)"
    signed = any(g["dtype"].startswith("int") for g in given)
    if re.search("sum|prod", plain) and signed and any(leaf["dtype"] == "uint64" for leaf in leaves(result)):
        return "MindSpore gives 0 for sums of uint64 beyond 2^63"
    if "xlogy" in name and not all(leaf["finite"] for leaf in leaves(result)):
        return "MindSpore's Xlogy of 0 is NaN beside a negative number; docs/limits.md"
    if re.search("svd", name) and isinstance(result, list):
        return "the signs of singular vectors are open"
    if free and nothing and "kron" in name:
        return "the file does not say the free dimensions of nothing"
    if "lppool" in plain and halves:
        return "MindSpore rounds powers to float16 (docs/limits.md)"
    if nothing and "unique_consecutive" in name:
        return "MindSpore gives one dimension for nothing"
    if "cumprod" in name and any(g["dtype"] == "bool" for g in given):
        return "MindSpore multiplies memory beyond the truth values"
    if "searchsorted" in name and not all(g["sorted"] for g in given[:1]):
        return "what is searched is not sorted"
    if name == "nn.ClipByNorm":
        return "MindSpore measures other elements than its documentation says"
    if "cholesky_inverse" in name and len(given[0]["shape"]) > 2:
        return "MindSpore leaves all but the first of the matrices as the memory was"
    if re.search("nextafter|cross", name) and len({tuple(g["shape"]) for g in given}) > 1:
        return "MindSpore reads beyond the smaller operand"
    return ""


_DIVIDES = re.compile(r"div|cosine|mod|cov|corr|remainder|reciprocal|%|/|pow|\*\*")
_STRANGE = (
    ("sort|topk|median|quantile|unique", "nan", "sorting has no place for NaN, and MindSpore's result depends on how it sorts"),
    ("^relu6$|shrink$|^elu$|hardsigmoid", "nan, -0", "MindSpore's vectors keep it otherwise than what is left over of them"),
    (
        "relu|pool|triplet|softplus|warmup|bnact",
        "nan",
        "MindSpore's comparison drops NaN, and to follow would slow all networks (docs/limits.md)",
    ),
    ("^dense|rnncell", "not finite", "MindSpore's activations drop NaN (docs/limits.md)"),
    ("batchnorm|^lrn", "not finite", "onnxruntime's kernel brings them together before it computes (docs/limits.md)"),
    ("gridsample", "not finite", "C++ does not define the places of what is not finite"),
    ("^a?(min|max)$|ptp|minmax", "nan", "the least of NaN and numbers is a number, in onnxruntime sometimes another one (docs/limits.md)"),
    ("conv", "not finite", "0 of the padding times infinity is NaN (docs/limits.md)"),
    ("crop", "not finite", "it is interpolated by another formula (docs/limits.md)"),
    ("adaptiveavgpool", "not finite", "a share of 0 of infinity is NaN, and to follow would slow all networks (docs/limits.md)"),
    ("swish|gelu|logsigmoid|igamma|a(rc)?tan2", "not finite", "it is computed by another formula (docs/limits.md)"),
    ("celu|selu|copysign|trunc|a(rc)?tan2|logsigmoid|expm1|log1p", "-0", "onnxruntime's kernels lose the sign of a zero (docs/limits.md)"),
    ("softmax|softmin|logcumsumexp", "not finite", "MindSpore's exponential drops NaN, and begins anew after infinity"),
    (_DIVIDES.pattern, "nan, -0", "MindSpore's NaN / 0 is -inf, and its 1 / -0 is inf (docs/limits.md)"),
    ("mod|cov|corr|var|std|remainder|%|pow", "not finite", "MindSpore divides by what is infinite in another way than fmod"),
    ("qr|svd|^lu|inv|solve|cholesky|det|matrix|lstsq|eig", "not finite", "there are no factors of what is not finite"),
)  # fmt: skip
"""Words in the names of functions, and what among the numbers that they are given makes the result mean nothing."""
_OF_NOTHING = re.compile(r"cat|stack|zeros|ones|full|size|shape|numel|rank|pad|count|trace|\.all$")
_TYPES = {"bool", "float16", "float32", "float64"} | {
    f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)
}


def _beyond(name: str, given: list[Any], arguments: Sequence[str]) -> bool:
    """Whether a place is no place of the first tensor along the axis, or any dimension if no axis is known."""
    axes = [int(a.rpartition("=")[2]) for a in arguments if re.fullmatch(r"((axis|dim)=)?-?\d+", a)]
    axis, shape = (
        (axes or [0 if "scatter_elements" in name else len(given[0]["shape"])])[0],
        given[0]["shape"],
    )
    longest = shape[axis] if -len(shape) <= axis < len(shape) else max(shape, default=1)
    return any(g["dtype"] in ("int32", "int64") and g["largest"] >= longest for g in given[1:])


def _finds_places(leaf: Any) -> bool:
    return leaf["dtype"] in ("int32", "int64") and leaf["largest"] < 1000


def comparable(call: str, arguments: Sequence[str], text: str) -> str:
    """A call as text, with what is open in its result taken away.

    Of `topk` without order that is the order: MindSpore leaves the one of C++'s `nth_element`.
    """
    if call.endswith("topk") and any(a in ("False", "sorted=False") for a in arguments):
        return f"ops.sort({text}[0].flatten())[0]"
    return text


def leaves(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, list):
        return [leaf for item in result for leaf in leaves(item)]
    return [result] if isinstance(result, dict) else []
