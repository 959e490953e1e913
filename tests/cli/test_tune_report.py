"""Output of `pinnace tune` about measurements that are known."""

from __future__ import annotations

from dataclasses import replace

from pinnace.bench.mixed_precision import Tried
from pinnace.bench.tuning import Outcome
from pinnace.cache.tuning import Configuration, Measurement, Tuning
from pinnace.cli.tune_report import MADE_UP, NOT_STORED, as_json, conclusion, show, show_forms
from pinnace.quantization.accuracy import Likeness
from pinnace.quantization.scheme import QuantizationScheme

FP32 = "enforce_fp32"
ALONE = Measurement("onnxruntime", FP32, 2, 1, 10.0, 100.0, 0.0, 12.5, 20_000_000)
MANY = Measurement("onnxruntime", FP32, 1, 2, 18.0, 110.0, 0.0, 25.0, 30_000_000)
FAST = Measurement("openvino", FP32, 2, 1, 4.0, 250.0, 2e-7, 5.0, 40_000_000)
LARGE = Measurement("openvino", FP32, 1, 2, 7.0, 280.0, 2e-7, 9.0, 50_000_000)


def tuned(*measured):
    outcomes = [Outcome(one, one, "float32") for one in measured]
    return Tuning("net.onnx", ((1, 3),), 0.0, measured), outcomes


def test_the_last_line_has_what_was_chosen_and_the_best_of_plain_onnxruntime():
    tuning, outcomes = tuned(ALONE, MANY, FAST, LARGE)
    assert conclusion(tuning, outcomes, FP32, "") == (
        "chosen for latency: openvino, enforce_fp32, 1 x 2 (workers x threads), 4 ms, "
        "where onnxruntime in fp32 takes 10; "
        "for throughput: openvino, enforce_fp32, 2 x 1 (workers x threads), 280/s, "
        "where onnxruntime in fp32 has 110; "
        "stored for builds that leave this open (pinnace tune --forget net.onnx deletes it)"
    )


def test_the_last_line_says_why_nothing_is_stored():
    tuning, outcomes = tuned(FAST)  # without onnxruntime it is beside itself
    line = conclusion(tuning, outcomes, FP32, "interrupted")
    assert "4 ms, where onnxruntime in fp32 takes 4;" in line
    assert line.endswith("nothing is stored: interrupted")
    nothing, none = tuned()
    assert (
        conclusion(nothing, none, FP32, "nothing fits")
        == "nothing is chosen; nothing is stored: nothing fits"
    )
    made_up = [*outcomes, Outcome(replace(FAST, form="any"), reason=MADE_UP)]
    assert conclusion(tuning, made_up, FP32, "").endswith(f"; {NOT_STORED}")


def test_a_table_has_the_figures_of_each_way_and_where_it_wins(printed):
    tuning, outcomes = tuned(ALONE, FAST, LARGE)
    failed = Outcome(Configuration("onnxruntime", FP32, 1, 2), reason="it failed\nwith more to say")
    slow = Outcome(MANY, MANY, "float32", "p99 is above 20 ms")
    assert printed(show, tuning, [*outcomes, failed, slow]) == [
        "net.onnx",
        "workers x threads computes in engine p50 ms p99 ms per second MB deviation chosen",
        "1 x 2 float32 onnxruntime 10.000 12.500 100.0 20.0 0.0e+00",
        "1 x 2 float32 openvino 4.000 5.000 250.0 40.0 2.0e-07 for latency",
        "2 x 1 float32 openvino 7.000 9.000 280.0 50.0 2.0e-07 for throughput",
        "2 x 1 onnxruntime it failed",
        "2 x 1 float32 onnxruntime 18.000 25.000 110.0 30.0 0.0e+00 p99 is above 20 ms",
    ]


def test_precisions_have_a_column_if_there_are_several(printed):
    halved = replace(FAST, precision="preferred_fp16")
    tuning, outcomes = tuned(FAST, halved)
    lines = printed(show, tuning, outcomes)
    assert lines[1].startswith("workers x threads precision computes in engine")
    assert lines[2].startswith("1 x 2 enforce_fp32 float32 openvino")
    assert lines[3].startswith("1 x 2 preferred_fp16 float32 openvino")


def test_json_has_all_figures_and_forms_only_where_they_were_sought():
    tuning, outcomes = tuned(ALONE, replace(FAST, deviation=float("inf")))
    found = as_json(tuning, outcomes, [], kept=True)
    assert found.keys() == {"model", "shapes", "ways", "remembered"}
    assert found["remembered"] is True
    first, second = found["ways"]
    assert (first["wins"], second["wins"]) == ([], ["for latency", "for throughput"])
    assert (first["deviation"], second["deviation"]) == (0.0, "inf")
    assert (first["computes_in"], first["form"], first["reason"]) == ("float32", "", "")


def test_forms_are_shown_with_their_accuracy(printed, capsys):
    form = QuantizationScheme("weights8", share=0.5)
    setup = Configuration("openvino", FP32, 2, 1, form=form.text)
    tried = Tried(setup, 1.5, Likeness(0.0123, 0.9876543, 0.875))
    assert printed(show_forms, [tried], 0.02) == [
        "Beside float32, over all inputs",
        "form engine relative error cosine same largest",
        f"{form} openvino 1.2e-02 0.987654 87.5%",
    ]
    tuning, outcomes = tuned(ALONE)
    (row,) = as_json(tuning, outcomes, [tried], kept=False)["forms"]
    assert row == {
        "form": str(form), "provider": "openvino", "error": 0.0123, "cosine": 0.9876543, "same_top": 0.875,
    }  # fmt: skip
    assert printed(show_forms, [], None) == []
    show_forms([], 0.02)
    assert "no form with fewer bits is faster within an error of 0.02" in capsys.readouterr().err
