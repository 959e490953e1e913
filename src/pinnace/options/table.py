"""The table of all options: configuration keys, and attributes of `Context`.

It defines the checks of configurations, the warnings of builds, and docs/configuration.md. Sections, keys and
their meanings are MindSpore Lite's (its API pages, "Ascend Conversion Tool Description" of its guide, its
page on dynamic shapes with TensorRT, the seeds), except [runner] and [distributed], which are Pinnace's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from pinnace.options.values import BATCHES, DIMS, NAMED_SHAPES, RANGES, Number, TextFormat, Words

PLACES = ("cpu", "cuda", "tensorrt", "ascend", "simulated gpu", "simulated ascend")
"""Kinds of target that options distinguish."""

Engine = Literal["onnxruntime", "openvino"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
"""Engines of the CPU, by their provider names, which are those of their packages."""

EVERYWHERE = frozenset(PLACES)
NOWHERE: frozenset[str] = frozenset()
_CPU, _CUDA, _TENSORRT, _CANN = (frozenset({place}) for place in PLACES[:4])
_GPU = frozenset({"cuda", "tensorrt", "simulated gpu"})
_ASCEND = frozenset({"ascend", "simulated ascend"})
_SIMULATED = frozenset({"simulated gpu", "simulated ascend"})

KEEPS = AFTER, BEFORE, NEVER = ("after", "before", "never")
"""Values of `keep`: the time at which a compiled model is written to the compile cache."""

PREFERENCES = LATENCY, FIRST, MEMORY = ("latency", "first", "memory")
"""Values of `prefer`: the aim of the choice of an engine."""

RUNNER, PARALLEL, BUFFER = "ModelParallelRunner", "DataParallel", "a model in memory"
"""Conditions that options need: the class that runs the model, or the model's origin."""

CHOSEN = "the devices are those of device_ids, or of the cluster"
SPLIT = "DataParallel gives devices parts of a batch"
SECRET = "a compiled model would tell what the model's file hides"
"""Conditions that override options."""


class Option(NamedTuple):
    """One option: its effect, and the `PLACES` where it has it.

    `why` is why it has no effect elsewhere, unless that is only the target's kind. `values` is the check;
    None accepts any text. An option with `needs` requires one of these conditions, and `but` overrides it.
    `fills` is the attribute of `Context` that it sets if the user has not.
    """

    does: str = ""
    on: frozenset[str] = NOWHERE
    why: str = ""
    values: Words | Number | TextFormat | None = None
    needs: tuple[str, ...] = ()
    but: str = ""
    fills: str = ""


class Section(NamedTuple):
    """The options of a section; `others` describes all further keys, None if there must be none.

    `kind` is the kind of device that the section is for, "" for any.
    """

    keys: Mapping[str, Option]
    others: Option | None = None
    kind: str = ""

    def option(self, key: str) -> Option | None:
        return self.keys.get(key, self.others)


def _nothing(names: str, why: str, values: Words | Number | None = None) -> dict[str, Option]:
    return dict.fromkeys(names.split(), Option(why=why, values=values))


_NO_CANN = "onnxruntime's CANN provider, which runs models on Ascend, has no such option"
_NO_OPTION = Option(why=_NO_CANN)
_ONE_KERNEL = "each operator has one kernel only"
_NOT_TUNED = "AOE is not used; `pinnace tune` measures models on the CPU"
_SAME_POOL = "the workers of a runner always share one thread pool, context.cpu.thread_num each"
_NO_PARTS = "embedding tables are not cached in parts on a device"
_NO_LAYOUT = "inputs have the layout of the model file"

_SWITCH = Words(("true", "false"))
_BIT = Words(("0", "1"))
_ACL_PRECISION = (
    "force_fp32",
    "force_fp16",
    "allow_fp32_to_fp16",
    "must_keep_origin_dtype",
    "allow_mix_precision",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
)
ASCEND_PRECISION = ("enforce_fp32", "preferred_fp32", "enforce_fp16", "enforce_origin", "preferred_optimal")
_LAYOUTS = Words(("NCHW", "NHWC", "ND"))
_TYPES = Words(("FP16", "FP32", "UINT8"))

_GE_PRECISION = Option(
    "as `context.ascend.precision_mode`, in CANN's words",
    _ASCEND,
    values=Words(_ACL_PRECISION),
    fills="ascend.precision_mode",
)
_WEIGHTS_PATH = Option(
    "the model file, beside which its weights are, or their folder",
    EVERYWHERE,
    "a model file has its weights beside it",
    needs=(BUFFER,),
)
_VARIABLE_FILE = Option("file of the names of weights for `update_weights`, one per line", EVERYWHERE)
_IMPLEMENTATIONS = Option(
    "CANN's `op_select_impl_mode`",
    _CANN,
    _ONE_KERNEL,
    Words(("high_performance", "high_precision")),
)


def _shape(kind: str, on: frozenset[str]) -> Option:
    """Return `input_shape` of a kind of device."""
    does = "shapes of inputs, by name, to build the model for; -1 is free"
    return Option(does, on, "", NAMED_SHAPES, fills=f"{kind}.input_shape")


def _free(form: TextFormat, kind: str = "ascend", on: frozenset[str] = _ASCEND) -> Option:
    """Return `dynamic_dims` of a kind of device, in a form."""
    does = "allowed sizes of free dimensions"
    return Option(does, on, "", form, but=SPLIT, fills=f"{kind}.dynamic_dims")


_INPUT_SHAPE = _shape("ascend", _ASCEND)
_OUTPUT_TYPE = Option("element type of all outputs", _ASCEND, values=_TYPES, fills="ascend.output_type")

_ACL: dict[str, Option] = {
    "device_id": Option(
        "as `context.ascend.device_id`", _ASCEND, values=Number(), but=CHOSEN, fills="ascend.device_id"
    ),
    "precision_mode": Option(
        "as `context.ascend.precision_mode`; CANN's words too",
        _ASCEND,
        values=Words(ASCEND_PRECISION + _ACL_PRECISION),
        fills="ascend.precision_mode",
    ),
    "input_shape": _INPUT_SHAPE,
    "dynamic_dims": _free(RANGES),
    "dynamic_batch_size": _free(BATCHES),
    "dynamic_image_size": _free(DIMS),
    "output_type": _OUTPUT_TYPE,
    "op_select_impl_mode": _IMPLEMENTATIONS,
    "variable_weights_file": _VARIABLE_FILE,
    "variable_weights_list": Option("names of weights for `update_weights`, separated by commas", EVERYWHERE),
    "input_format": Option(why=_NO_LAYOUT, values=_LAYOUTS),
    "aoe_mode": Option(why=_NOT_TUNED),
}
_ASCEND_CONTEXT: dict[str, Option] = {
    **_ACL,
    "provider": Option(
        "as `context.ascend.provider`", _ASCEND, values=Words(("", "ge", "acl")), fills="ascend.provider"
    ),
    "rank_table_file": Option("file with the devices and servers of the ranks", EVERYWHERE),
    **dict.fromkeys(
        ("shareable_weight_pid_list", "shareable_weight_mem_handle"),
        Option("lends weights to processes, or borrows them; refused on real devices", EVERYWHERE),
    ),
    "ge_graph_memory_max_size": Option(
        "CANN's `npu_mem_limit`", _CANN, "the memory of a simulated device is the host's", Number(63)
    ),
    **_nothing(
        "plugin_custom_ops custom_fusion_pattern op_attrs stream_label_file profiling_config_file "
        "dump_config_file dump_model_name model_cache_dir model_cache_mode mixprecision_list_path "
        "enable_custom_op parameter_as_refdata kvcache_input_layout bundle_model "
        "fusion_switch_config_file_path insert_op_config_file_path buffer_optimize",
        _NO_CANN,
    ),
    "max_weight_batch": Option(why=_NO_CANN, values=Number()),
    "ge_variable_memory_max_size": Option(why=_NO_CANN, values=Number(63)),
}
_GE_KEYS: dict[str, Option] = {
    "ge.exec.precision_mode": _GE_PRECISION,
    "ge.inputShape": _INPUT_SHAPE,
    "ge.dynamicDims": _free(DIMS),
}
_GE = Section(_GE_KEYS, _NO_OPTION, "ascend")
_GE_BUILD: dict[str, Option] = {
    **_GE_KEYS,
    "input_shape": _INPUT_SHAPE,
    "input_format": Option(why=_NO_LAYOUT, values=_LAYOUTS),
    **_nothing("ge.exec.disableReuseMemory ge.externalWeight", _NO_CANN, _BIT),
    "ge.op_compiler_cache_mode": Option(why=_NO_CANN, values=Words(("enable", "force", "disable"))),
}
_AOE = Section({}, Option(why=_NOT_TUNED), "ascend")
_WRITTEN = Section(
    {}, Option(why="MindSpore Lite uses it internally; use ModelGroup or LiteInfer(model_group_id=)")
)

SECTIONS: Mapping[str, Section] = {
    "model_file": Section({"mindir_path": _WEIGHTS_PATH}),
    "weight": Section({"weight_path": _WEIGHTS_PATH}),
    "execution_plan": Section({}, Option("`data_type:float16` or `data_type:float32` of a node", EVERYWHERE)),
    "ms_cache": Section(
        {
            "serialize_path": Option(
                "folder of the compile cache (`PINNACE_CACHE_DIR` may name several); "
                "with TensorRT that of its engines",
                EVERYWHERE - _CUDA - _CANN,
                "this provider of onnxruntime keeps nothing",
                but=SECRET,
            ),
            "keep": Option(
                "`after`: in the background, when the model is given out; `before`: before that; `never`: "
                "models are only looked up",
                _CPU,
                "compiled models of devices are not kept",
                Words(KEEPS),
                but=SECRET,
            ),
            **_nothing("cache_model_path", _NO_PARTS),
            **_nothing("vocab_size device_cache_size", _NO_PARTS, Number()),
        }
    ),
    "common_context": Section(
        {
            "variable_weights_file": _VARIABLE_FILE,
            "prefer": Option(
                "`latency`: the faster engine, at first by rule, then as measured when the model is kept; "
                "`first`: by rule; `memory`: the one whose weights all processes share",
                _CPU,
                "there is one engine for the target",
                Words(PREFERENCES),
            ),
            "compile_graph_parallel": Option(why="a model is compiled as one graph, by one thread"),
        }
    ),
    "gpu_context": Section(
        {
            "input_shape": _shape("gpu", _GPU),
            "dynamic_dims": _free(RANGES, "gpu", _GPU),
            "opt_dims": Option(
                "sizes that kernels are optimized for", _TENSORRT, "only TensorRT optimizes for sizes", RANGES
            ),
            "precision_mode": Option(
                "as `context.gpu.precision_mode`",
                _GPU,
                values=Words(("enforce_fp32", "preferred_fp16", "enforce_fp16")),
                fills="gpu.precision_mode",
            ),
            **_nothing("dump_ops dump_dir", "nothing is written while a model runs"),
        },
        kind="gpu",
    ),
    "ascend_context": Section(_ASCEND_CONTEXT, kind="ascend"),
    "acl_option_cfg_param": Section(
        {**_ACL, "input_shape_vector": Option(why="input_shape has the names of the inputs")},
        _NO_OPTION,
        "ascend",
    ),
    "acl_init_options": Section(
        {
            **_GE_BUILD,
            "ge.opSelectImplmode": _IMPLEMENTATIONS,
            "ge.optypelistForImplmode": Option("CANN's `optypelist_for_implmode`", _CANN, _ONE_KERNEL),
            **_nothing("ge.bufferOptimize", _NO_CANN, Words(("l1_optimize", "l2_optimize", "off_optimize"))),
            **_nothing("ge.enableCompressWeight ge.enableSingleStream", _NO_CANN, _SWITCH),
            **_nothing("ge.aicoreNum", _NO_CANN, Number()),
            **_nothing(
                "ge.enableSmallChannel ge.enableSparseMatrixWeight ge.deterministic ge.virtual_type",
                _NO_CANN,
                _BIT,
            ),
        },
        _NO_OPTION,
        "ascend",
    ),
    "acl_build_options": Section(
        {
            **_GE_BUILD,
            "ge.dynamicBatchSize": _free(BATCHES),
            "ge.dynamicImageSize": _free(DIMS),
            "ge.outputDataType": _OUTPUT_TYPE,
            **_nothing("log", _NO_CANN, Words(("debug", "info", "warning", "error"))),
            **_nothing(
                "ge.shape_generalized_build_mode", _NO_CANN, Words(("shape_generalized", "shape_precise"))
            ),
        },
        _NO_OPTION,
        "ascend",
    ),
    "ge_global_options": _GE,
    "ge_session_options": _GE,
    "ge_graph_options": _GE,
    "aoe_global_options": _AOE,
    "aoe_tuning_options": _AOE,
    "transformer_context": Section({}, Option(why="transformer layers are not replaced by one kernel")),
    "shared_thread_pool": Section(
        _nothing("enable_shared_thread_pool", _SAME_POOL, _SWITCH), Option(why=_SAME_POOL)
    ),
    "lite_inner_group": _WRITTEN,
    "inner_common": _WRITTEN,
    "inner_model_parallel_runner": _WRITTEN,
    "runner": Section(
        {
            key: Option(does, EVERYWHERE, values=Number(), needs=(RUNNER,))
            for key, does in {
                "max_queue": "requests that may wait; 0: no limit",
                "max_batch_size": "rows of waiting requests that are computed together",
                "max_queue_delay_us": "microseconds that the first of them waits for others",
                "ranks": "processes that compute each request together: files NAME_0, NAME_1, ...",
            }.items()
        }
        | {
            "isolate": Option(
                "each worker is a process of its own, which is restarted if it ends",
                EVERYWHERE,
                values=_SWITCH,
                needs=(RUNNER,),
            )
        }
    ),
    "distributed": Section(
        {"timeout": Option("seconds that ranks wait for each other", EVERYWHERE, values=Number())}
    ),
}
"""The sections of a configuration."""

_OWN_CORES = "threads of a simulated device are bound to its slice of the cores"
_OWN = "devices have their own option"
_ARGUMENTS = "for ModelParallelRunner only; other classes have arguments for it"

CONTEXT: Mapping[str, Option] = {
    "target": Option("the device to run on; the CPU runs what it cannot", EVERYWHERE),
    "group_info_file": Option("file of the groups of ranks that run one model together", EVERYWHERE),
    "enable_parallel": Option(why="ModelParallelRunner runs requests at the same time"),
    "cpu.thread_num": Option("threads for a request; 0: one per core, or 1 if that is as fast", EVERYWHERE),
    "cpu.inter_op_parallel_num": Option("operators that onnxruntime runs at the same time", EVERYWHERE),
    "cpu.thread_affinity_mode": Option(
        "binds the threads to the fastest cores (1) or the slowest (2)", EVERYWHERE - _SIMULATED, _OWN_CORES
    ),
    "cpu.thread_affinity_core_list": Option(
        "binds the threads to these cores", EVERYWHERE - _SIMULATED, _OWN_CORES
    ),
    "cpu.precision_mode": Option("`preferred_fp16`: 16 bits if the CPU computes in them", _CPU, _OWN),
    "cpu.provider": Option(f"the engine: `{'` or `'.join(ENGINES)}`", _CPU, _OWN),
    "gpu.device_id": Option("number of the card", _GPU, but=CHOSEN),
    "gpu.precision_mode": Option(
        "`preferred_fp16`: float16 with TensorRT, TF32 with CUDA, the CPU's 16 bits if simulated",
        _GPU,
    ),
    "gpu.provider": Option("`cuda` or `tensorrt`; a simulated device takes and ignores both", _GPU),
    "ascend.device_id": Option("number of the device", _ASCEND, but=CHOSEN),
    "ascend.precision_mode": Option(
        "CANN's precision mode; if simulated, the CPU's 16 bits for modes that prefer 16 bits", _ASCEND
    ),
    "ascend.provider": Option("`ge` or `acl`, which do the same here", _ASCEND),
    "ascend.group_size": Option(
        "number of ranks, as in the launcher or the rank table",
        _ASCEND | _CPU,
        "for GPUs the launcher sets it",
    ),
    "ascend.rank_id": Option(
        "rank of this process, as in the launcher, if there is one",
        _ASCEND | _CPU,
        "for GPUs the launcher sets it",
    ),
    "parallel.workers_num": Option("requests that run at the same time", EVERYWHERE, needs=(RUNNER,)),
    "parallel.config_info": Option("sections of a configuration", EVERYWHERE, _ARGUMENTS, needs=(RUNNER,)),
    "parallel.config_path": Option("file with a configuration", EVERYWHERE, _ARGUMENTS, needs=(RUNNER,)),
    "parallel.device_ids": Option(
        "devices that the workers are spread over",
        EVERYWHERE - _CPU,
        "the CPU is one device",
        needs=(RUNNER,),
    ),
    "parallel.cluster": Option("`ray`: processes of a Ray cluster", EVERYWHERE, needs=(RUNNER, PARALLEL)),
    "parallel.address": Option("address of a Ray cluster", EVERYWHERE, needs=(RUNNER, PARALLEL)),
}
"""The attributes of `Context`, without `enable_fp16` and read-only ones, which depend on these."""
