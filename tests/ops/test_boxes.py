"""Boxes in images, beside numpy: moved, compared, suppressed, cut out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.applied import results

from pinnace.graph.failures import Unsupported
from pinnace.program import Dialect

RANDOM = np.random.default_rng(17)
CORNERS = RANDOM.uniform(0, 20, (9, 2)).astype(np.float32)
BOXES = np.concatenate([CORNERS, CORNERS + RANDOM.uniform(2, 20, (9, 2)).astype(np.float32)], 1)
OTHERS = BOXES[::-1] + RANDOM.uniform(-2, 2, (9, 4)).astype(np.float32)
SCORES = RANDOM.permutation(9).astype(np.float32) / 8
MEANS, STDS = (0.1, -0.2, 0.3, 0.0), (0.5, 2.0, 1.5, 0.75)


def run(name: str, *given, **attributes) -> list[np.ndarray]:
    return results(Dialect.MINDSPORE, name, list(given), **attributes)


def middle_and_size(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of boxes whose ends are pixels inside."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2] + 1


def common(a: np.ndarray, b: np.ndarray, pixel: float) -> float:
    return np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + pixel, 0))


def area(box: np.ndarray, pixel: float) -> float:
    return np.prod(box[2:] - box[:2] + pixel)


def overlap(a: np.ndarray, b: np.ndarray, pixel: float = 0.0) -> float:
    """The common area over that of both."""
    both = common(a, b, pixel)
    return both / (area(a, pixel) + area(b, pixel) - both)


def suppressed(
    scores: np.ndarray, overlaps: np.ndarray, most: int, threshold: float, least: float
) -> list[int]:
    """The places of what stays, best first."""
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] > least and all(overlaps[i, j] <= threshold for j in kept):
            kept.append(int(i))
    return kept[:most]


OVERLAPS = np.array([[overlap(a, b) for b in BOXES] for a in BOXES], np.float32)


def test_an_encoded_box_is_its_distance_from_its_anchor():
    (middle, size), (wanted, wanted_size) = middle_and_size(BOXES), middle_and_size(OTHERS)
    expected = (np.concatenate([(wanted - middle) / size, np.log(wanted_size / size)], 1) - MEANS) / STDS
    (found,) = run("BoundingBoxEncode", BOXES, OTHERS, means=MEANS, stds=STDS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    (plain,) = run("BoundingBoxEncode", BOXES, OTHERS)
    np.testing.assert_allclose(plain, expected * STDS + MEANS, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "clip"), [((25, 30), 0.3), ((0, 30, 3), 0.9), ((-1, 30), 0.016), ((25, -1), 0.0)]
)
def test_a_decoded_box_lies_within_its_image(shape, clip):
    deltas = RANDOM.normal(size=(9, 4)).astype(np.float32)
    middle, size = middle_and_size(BOXES)
    moved = deltas * STDS + np.array(MEANS)
    limit = abs(np.log(clip)) if clip else np.inf
    middle, half = middle + size * moved[:, :2], (size * np.exp(moved[:, 2:].clip(-limit, limit)) - 1) / 2
    last = [np.inf if side < 0 else side for side in (shape[1], shape[0])]
    expected = np.concatenate([middle - half, middle + half], 1).clip(0, np.tile(last, 2))
    (found,) = run(
        "BoundingBoxDecode", BOXES, deltas, max_shape=shape, means=MEANS, stds=STDS, wh_ratio_clip=clip
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_overlaps_count_the_pixels_at_both_ends(mode):
    (found,) = run("IOU", BOXES[:4], OTHERS, mode=mode)
    expected = np.array([[overlap(a, b, 1.0) for a in BOXES[:4]] for b in OTHERS])
    if mode == "iof":  # over the area of the second
        expected = np.array([[common(a, b, 1.0) / area(b, 1.0) for a in BOXES[:4]] for b in OTHERS])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_boxes_on_the_edge_of_an_image_are_valid():
    boxes = np.array([
        [0, 0, 19, 9], [0, 0, 20, 9], [0, 0, 19, 10], [-1, 0, 5, 5], [0, -1, 5, 5], [1, 1, 2, 2],
    ], np.float32)  # fmt: skip
    (found,) = run("CheckValid", boxes, np.array([5, 10, 2], np.float32))
    assert found.tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize("most", [2, 20])
@pytest.mark.parametrize(("threshold", "least"), [(0.1, 0.0), (0.5, 0.3), (0.2, 0.5)])
def test_of_boxes_that_overlap_the_best_stays(most, threshold, least):
    given = [np.array(n, np.float32) for n in (threshold, least)]
    expected = suppressed(SCORES, OVERLAPS, most, threshold, least)
    assert 0 < len(expected) < 9
    (found,) = run("NonMaxSuppressionV3", BOXES, SCORES, np.array(most, np.int32), *given)
    assert found.tolist() == expected
    (found,) = run("NonMaxSuppressionWithOverlaps", OVERLAPS, SCORES, np.array(most, np.int32), *given)
    assert found.tolist() == expected
    assert found.dtype == np.int32


def test_overlaps_and_scores_as_large_as_their_thresholds():
    overlaps, scores = np.full((3, 3), 0.5, np.float32), np.array([0.25, 0.75, 0.5], np.float32)
    half, less, least, zero = (np.array(n, np.float32) for n in (0.5, 0.4, 0.25, 0))
    (found,) = run("NonMaxSuppressionWithOverlaps", overlaps, scores, np.array(3, np.int32), half, least)
    assert found.tolist() == [1, 2]
    (found,) = run("NonMaxSuppressionWithOverlaps", overlaps, scores, np.array(3, np.int32), less, zero)
    assert found.tolist() == [1]


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_a_mask_tells_which_boxes_stay(threshold):
    boxes = np.concatenate([BOXES, SCORES[:, None]], 1)
    ranked, numbers, mask = run("NMSWithMask", boxes, iou_threshold=threshold)
    order = np.argsort(-SCORES)
    np.testing.assert_array_equal(ranked, boxes[order])
    assert numbers.tolist() == list(range(9))
    kept = suppressed(SCORES, OVERLAPS, 9, threshold, -1)
    assert order[mask].tolist() == kept


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("padded", "clipped"), [(False, True), (True, False)])
@pytest.mark.parametrize(("each", "total"), [(2, 5), (3, 40)])
def test_the_best_boxes_of_all_classes(own, padded, clipped, each, total):
    kinds, threshold, least = 3, 0.3, 0.2
    boxes = np.stack([BOXES, OTHERS, BOXES + 1] if own else [BOXES], 1)[None] / 25
    scores = np.stack([RANDOM.permutation(27).reshape(9, 3) for _ in range(1)]).astype(np.float32) / 26
    found = []
    for kind in range(kinds):
        mine = boxes[0, :, kind if own else 0]
        overlaps = np.array([[overlap(a, b) for b in mine] for a in mine])
        kept = suppressed(scores[0, :, kind], overlaps, each, threshold, least)
        found += [(scores[0, i, kind], kind, mine[i].clip(0, 1) if clipped else mine[i]) for i in kept]
    found = sorted(found, key=lambda one: -one[0])[:total]
    size = min(total, each * kinds) if padded else total
    limits = [np.array(n, np.int32) for n in (each, total)] + [
        np.array(n, np.float32) for n in (threshold, least)
    ]
    where, best, classes, count = run(
        "CombinedNonMaxSuppression",
        boxes.astype(np.float32),
        scores,
        *limits,
        clip_boxes=clipped,
        pad_per_class=padded,
    )
    assert (where.shape, best.shape, classes.shape) == ((1, size, 4), (1, size), (1, size))
    assert count.tolist() == [len(found)]
    for i, (score, kind, box) in enumerate(found):
        assert (best[0, i], classes[0, i]) == (score, kind)
        np.testing.assert_allclose(where[0, i], box, rtol=1e-6)
    assert not where[0, len(found) :].any()
    assert not best[0, len(found) :].any()


def at(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """The pixel at a place between four."""
    top, left = int(np.floor(y)), int(np.floor(x))
    below, right = min(top + 1, image.shape[0] - 1), min(left + 1, image.shape[1] - 1)
    down, along = y - top, x - left
    upper = image[top, left] * (1 - along) + image[top, right] * along
    return upper * (1 - down) + (image[below, left] * (1 - along) + image[below, right] * along) * down


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 2)])
def test_crops_of_images(method, size):
    images = RANDOM.normal(size=(2, 6, 7, 3)).astype(np.float32)
    boxes = np.array([[0.1, 0.2, 0.9, 0.75], [0.8, 0.1, 0.3, 1.25], [0, 0, 1, 1]], np.float32)
    which = np.array([1, 0, 1], np.int32)
    expected = np.full((3, *size, 3), 2.5, np.float32)
    for box, row, column in np.ndindex(expected.shape[:3]):
        place = []
        for axis, i in ((0, row), (1, column)):
            start, stop = boxes[box, axis], boxes[box, axis + 2]
            share = i / (size[axis] - 1) if size[axis] > 1 else 0.5
            place.append((start + (stop - start) * share) * (images.shape[axis + 1] - 1))
        image = images[which[box]]
        if all(-1e-6 <= p <= n - 1 + 1e-6 for p, n in zip(place, image.shape, strict=False)):
            y, x = (min(max(p, 0), n - 1) for p, n in zip(place, image.shape, strict=False))
            near = image[int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
            expected[box, row, column] = near if method == "nearest" else at(image, y, x)
    (found,) = run("CropAndResize", images, boxes, which, size, method=method, extrapolation_value=2.5)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_levels_of_attention_must_be_known():
    one = np.zeros((1, 1, 1, 1), np.float32)
    with pytest.raises(Unsupported, match="'shape' must be known before the run"):
        run("MultiScaleDeformableAttn", one, np.zeros((1, 2), np.int32), None, one, one)
