"""The networks of the zoo, by name; read by both sides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A network: its name, the library that it comes from, and the side of its square input in pixels.

    `calm` is for `oracle.settle_averages`.
    """

    name: str
    source: str
    size: int = 224
    calm: float = 0.0


_MINDCV = """
    BiT_resnet50 cait_xxs24_224 cmt_tiny:160 coat_lite_tiny coat_tiny convit_tiny convnext_tiny convnextv2_atto
    crossvit_9:240 densenet121 dpn92 edgenext_xx_small:256 efficientnet_b0 efficientnet_v2_s ghostnet_050
    googlenet halonet_50t:256 hrnet_w32 inception_v3:299 inception_v4:299 mae_b_16_224_finetune mixnet_s
    mlp_mixer_s_p32 mnasnet_050 mobilenet_v1_025 mobilenet_v2_035_96:96 mobilenet_v3_large_075
    mobilenet_v3_small_075 mobilevit_xx_small:256 nasnet_a_4x1056 pit_ti pnasnet poolformer_s12 pvt_tiny
    pvt_v2_b0 regnet_x_200mf regnet_y_200mf repmlp_t224 repvgg_a0 repvgg_b1g4 res2net50 res2net50_v1b
    resnest14 resnet18 resnet50 resnetv2_50 resnext50_32x4d rexnet_09 senet154 seresnet18
    seresnext26_32x4d shufflenet_v1_g3_05 shufflenet_v2_x0_5 skresnet18 skresnext50_32x4d squeezenet1_0
    squeezenet1_1 swin_tiny swinv2_tiny_window8:256 vgg11 visformer_tiny visformer_tiny_v2 vit_b_32_224
    volo_d1 xception:299 xcit_tiny_12_p16_224
"""
"""One a family, its smallest, of mindcv; two where a family holds two kinds of network."""

_MINDYOLO = """
    yolov3/yolov3 yolov4/yolov4 yolov5/yolov5n yolov7/yolov7-tiny yolov8/yolov8n yolov9/yolov9-t
    yolov10/yolov10n yolov11/yolov11-n yolox/yolox-nano
"""
"""Configuration files of mindyolo, without the ending."""

_OWN = """
    bert conv3d crnn dbnet diffusion_unet gpt2_cache llama lstm_tagger t5 two_tower whisper_encoder
"""
"""Functions of `networks`."""


_CALM = {
    "hrnet_w32": 1.0,
    "inception_v4": 1.0,
    "yolov4": 1.0,
    "yolov9-t": 1.6,
    "yolov10n": 1.0,
    "yolox-nano": 1.0,
}
"""Networks so deep that with less they make of the rounding of an input's last bit more than 1e-4."""


def _entries() -> list[Entry]:
    mindcv = [(*text.split(":"), "224")[:2] for text in _MINDCV.split()]
    yolo = [(text.split("/")[1], text) for text in _MINDYOLO.split()]
    return [
        *(Entry(name, "mindcv", int(size), _CALM.get(name, 0.0)) for name, size in mindcv),
        *(Entry(name, f"mindyolo/{path}", 224, _CALM.get(name, 0.0)) for name, path in yolo),
        *(Entry(name, "own") for name in _OWN.split()),
    ]


ENTRIES = {entry.name: entry for entry in _entries()}
