"""Upstream's scripts: what each needs to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import language
import models
import torch
from models import Network


@dataclass(frozen=True)
class Row:
    """A script below `mindspore-lite/examples/base_models`, with its arguments and the stand-ins it runs with.

    In `arguments`, `{device}` is "cpu" or "ascend"; where it is missing, the script knows its device itself.
    """

    script: str
    arguments: str
    networks: Mapping[str, Network] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    """Of a model: the configuration in the script's folder; one in upstream's form is written where none is named."""
    pictures: tuple[str, ...] = ()
    files: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    """Other files and folders that are there, with what writes them."""


_TWICE = " --warmup 1 --runs 2 --device {device}"


def _middle(name: str, config: str = "") -> Row:
    arguments = f"--mindir {name}.mindir --img0 a.png --img1 b.png --output out.png" + _TWICE
    configs = {name: config} if config else {}
    return Row(
        f"{name}/infer_{name}_mslite.py",
        arguments,
        {name: models.middle_frame()},
        configs,
        ("a.png", "b.png"),
    )


def _video(name: str, network: Network, config: str = "") -> Row:
    arguments = f"--mindir {name}.mindir --input a.png --output out.png" + _TWICE
    configs = {name: config} if config else {}
    return Row(f"{name}/infer_{name}_mslite.py", arguments, {name: network}, configs, ("a.png",))


def _seen(name: str, network: Network, config: str = "") -> Row:
    configs = {name: config} if config else {}
    return Row(f"{name}/infer_{name}_mslite.py", f"--model {name}.mindir" + _TWICE, {name: network}, configs)


_BOXES = {"reg": (1, 2, 16, 16), "height": (1, 1, 16, 16), "dim": (1, 3, 16, 16), "rot": (1, 2, 16, 16)}
_BEV = _BOXES | {"vel": (1, 2, 16, 16), "heatmap": (1, 10, 16, 16)}
_QUERIES = {"cls_scores": (1, 900, 10), "bbox_preds": (1, 900, 10)}
_TOKENS = {"words": language.tokenizer}


def _generating(script: str, name: str, configs: Mapping[str, str] | None = None, **sizes: int) -> Row:
    arguments = (
        f"--prefill-model {name}_llm_prefill.mindir --decode-model {name}_llm_decode.mindir --tokenizer words"
        " --max-new-tokens 24 --device {device}"
    )
    networks = {
        f"{name}_llm_prefill": language.prefill("qwen2", **sizes),
        f"{name}_llm_decode": language.decode("qwen2", **sizes),
    }
    return Row(script, arguments, networks, configs or {}, files=_TOKENS)


def _embedding(size: str) -> Row:
    name = f"qwen3_embedding_{size}"
    arguments = f"--model {name}.mindir --tokenizer words --device {{device}}"
    return Row(
        f"{name}/infer_{name}_mslite.py", arguments, {name: language.embedding("qwen3")}, files=_TOKENS
    )


_STEP = torch.tensor([3])
_TASK = torch.arange(16)[None] * 1000
_ANCHORS = {"cls_scores": (1, 18, 32, 32), "bbox_preds": (1, 42, 32, 32), "dir_cls": (1, 12, 32, 32)}

HELD_OUT = [
    _middle("cain"),
    Row("blip_vqa_base/infer_blip_vqa_base_mslite.py", "--vision-model vision.mindir --text-encoder-model encoder.mindir --text-decoder-model decoder.mindir --tokenizer words --image a.png --question 'How many?' --device {device}", language.blip(), pictures=("a.png",), files=_TOKENS),
    Row("clip_vit_base_patch32/infer_clip_vit_base_patch32_mslite.py", "--model clip.mindir --image a.png --no-processor" + _TWICE, {"clip": language.clip()}, pictures=("a.png",)),
    Row("cogvlm/infer_cogvlm_mslite.py", "--model cogvlm.mindir --vocab-size 1000" + _TWICE, {"cogvlm": models.heads({"image": (1, 3, 224, 224), "input_ids": torch.arange(32)[None]}, {"logits": (1, 32, 1000)})}),
    Row("convnext/infer_convnext_mslite.py", "--mindir convnext.mindir --onnx convnext.onnx --align --input a.png --output out.png --device {device}", {"convnext": models.segments(512, 150)}, pictures=("a.png",)),
]  # fmt: skip
"""The scripts that came last, after all changes of Pinnace: of the folders from A to C those that had none before."""

ROWS = [
    _middle("amt_g", "config.ini"),
    *(_middle(name) for name in ("amt_l", "amt_s", "bmbc", "dain", "ema_vfi", "ifrnet", "rife", "rife_lite")),
    _video("basicvsr", models.sequence(10, 64, scale=4, every=True)),
    _video("basicvsr_pp", models.sequence(10, 64, scale=4, every=True), "config.ini"),
    _video("realbasicvsr", models.sequence(10, 64, scale=4, every=True)),
    _video("iconvsr", models.sequence(10, 64, scale=4, every=True), "config.ini"),
    *(_video(name, models.sequence(7, 64, scale=4)) for name in ("duf_28l", "duf_52l", "edvr_l", "edvr_m", "toflow")),
    *(_video(name, models.sequence(7, 256)) for name in ("deep_video_deblurring", "stdf")),
    _video("videnn", models.sequence(2, 256)),
    _video("fastdvdnet", models.sequence(5, 256, "seq", extra="noise_sigma"), "config.ini"),
    _video("flavr", models.sequence(4, 256, "seq"), "config.ini"),
    _seen("bevdepth", models.heads({"images": (1, 6, 3, 256, 704)}, _BEV)),
    _seen("bevformer", models.heads({"images": (1, 6, 3, 320, 800)}, _QUERIES)),
    *(_seen(name, models.heads({"images": (1, 6, 3, 320, 800)}, _QUERIES)) for name in ("detr3d", "petr", "petrv2")),
    _seen("uniad", models.heads({"images": (1, 6, 3, 320, 800)}, {"planning_traj": (1, 6, 2), "det_cls": (1, 900, 10)})),
    _seen("pointpillars", models.heads({"images": (1, 64, 256, 256)}, _ANCHORS)),
    _seen("vad", models.heads({"images": (1, 6, 3, 320, 800)}, {"ego_traj": (1, 6, 2), "scores": (1, 900, 10)})),
    _seen("second", models.heads({"bev_feat": (1, 256, 180, 180)}, _ANCHORS)),
    _seen("pv_rcnn", models.heads({"bev_feat": (1, 256, 200, 176)}, _ANCHORS)),
    *(_seen(name, models.heads({"actor_history": (1, 64, 11, 9), "map_polylines": (1, 768, 9)}, {"trajectory": (1, 64, 6, 80, 2), "scores": (1, 64, 6)})) for name in ("mtr", "mtr_plus")),
    _seen("vectornet", models.heads({"agent_hist": (1, 20, 4), "map_polyline": (1, 100, 9)}, {"trajectory": (1, 6, 30, 2)})),
    _seen("drivlvlm", models.heads({"pixel_values": (1, 3, 336, 336)}, {"image_embeds": (1, 24, 64)})),
    _seen("lanegcn", models.heads({"actor_hist": (1, 20, 6), "lane_nodes": (1, 500, 4)}, {"trajectory": (1, 6, 30, 2)})),
    _seen("centerpoint_voxel", models.heads({"bev_feat": (1, 256, 180, 180)}, _BEV)),
    _seen("clrnet", models.heads({"images": (1, 3, 288, 800)}, {"lane_logits": (1, 192, 2), "lane_coords": (1, 192, 76)})),
    _seen("laneatt", models.heads({"images": (1, 3, 288, 800)}, {"lane_existence": (1, 1000, 2), "lane_offsets": (1, 1000, 73)})),
    _seen("fcos3d", models.heads({"images": (1, 3, 320, 800)}, {"cls_score": (1, 10, 40, 100), "bbox_pred": (1, 9, 40, 100), "centerness": (1, 1, 40, 100), "dir_cls": (1, 2, 40, 100)})),
    _seen("hivt", models.heads({"actor_history": (1, 20, 20, 7), "map_lanes": (1, 200, 7)}, {"trajectory": (1, 20, 30, 2)})),
    _seen("legged_gym_policy", models.heads({"observation": (1, 235)}, {"action": (1, 12)}), config="config.ini"),
    _seen("hpt", models.heads({"observation": (1, 30)}, {"action": (1, 8, 14)})),
    _seen("gr_1", models.heads({"video": (1, 4, 3, 224, 224)}, {"action": (1, 10, 7)})),
    _seen("rdt_1b", models.heads({"noisy_action": (1, 64, 14), "timestep": _STEP, "cond": (1, 256)}, {"noise": (1, 64, 14)})),
    _seen("diffusion_policy", models.heads({"noisy_action": (1, 2, 16), "timestep": _STEP, "obs": (1, 2)}, {"noise": (1, 2, 16)})),
    _seen("octo", models.heads({"image": (1, 3, 224, 224), "proprio": (1, 7), "timestep": _STEP, "noisy_action": (1, 4, 7)}, {"noise": (1, 4, 7)})),
    *(_seen(name, models.heads({"image": (1, 3, 224, 224), "x_t": (1, 16, 7), "t": (1,)}, {"v": (1, 16, 7)})) for name in ("pi0", "gr00t_n1_2b")),
    *(_seen(name, models.heads({"image": (1, 3, 224, 224), "task_tokens": _TASK}, {"action": (1, 8, 7)})) for name in ("openvla_7b", "openvla_oft_7b", "cogact_8b")),
    _seen("cosmos_predict1_14b", models.heads({"noisy_latent": (1, 256, 16), "timestep": _STEP, "cond": (1, 256)}, {"noise": (1, 256, 16)})),
    *(_embedding(size) for size in ("0_6b", "4b", "8b")),
    Row("bert_base_chinese/infer_bert_base_chinese_mslite.py", "--model bert.mindir --tokenizer words --runs 2 --device {device}", {"bert": language.bert()}, files=_TOKENS),
    _generating("qwen2_0.5b/infer_qwen2_mindir.py", "qwen2"),
    _generating("qwen2.5_0.5b/infer_qwen25_mindir.py", "qwen25", {f"qwen25_llm_{part}": f"configs/qwen25_llm_{part}.config" for part in ("prefill", "decode")}, layers=24, head=64),
    Row("qwen3_reranker_0.6b/infer_qwen3_reranker_mslite.py", "--model qwen3_reranker.mindir --tokenizer words --device {device}", {"qwen3_reranker": language.scores("qwen3")}, files=_TOKENS),
    Row("vit_base_patch16_224/infer_vit_base_patch16_224_mslite.py", "--model vit.mindir --model-id vit --image a.png" + _TWICE, {"vit": language.vit()}, pictures=("a.png",), files={"vit": language.vit_folder}),
    *HELD_OUT,
]  # fmt: skip
