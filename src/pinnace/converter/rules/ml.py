"""Operators of `ai.onnx.ml` as formulas of ONNX's own (see `parts`); those of text have none."""

from __future__ import annotations

from pinnace.converter.rules import Rules, rules

RULES: Rules = rules(
    __name__,
    """
    Binarizer: X, threshold: float = 0.0 -> cast(X > threshold, dtype(X))
    ArrayFeatureExtractor: X, Y -> Gather(X, Reshape(Y, [-1]), axis=-1)
    Scaler: X, offset: Floats = (0.0,), scale: Floats = (1.0,) ->
        (cast(X, FLOAT) - constant(np.float32(offset))) * constant(np.float32(scale))
    LinearRegressor: X, coefficients: Floats, intercepts: Floats = (), post_transform: str = "NONE", targets: int = 1 ->
        if post_transform != "NONE":
            raise Unsupported(f"has post_transform {post_transform}, and only NONE can be written")
        y = cast(X, FLOAT) @ constant(np.float32(coefficients).reshape(targets, -1).T)
        y + constant(np.float32(intercepts)) if intercepts else y
    Normalizer: X, norm: str = "MAX" ->
        x = cast(X, FLOAT)
        if norm == "MAX":
            return x / ReduceMax(x, [-1], keepdims=1)
        LpNormalization(x, axis=-1, p=1 if norm == "L1" else 2)
    """,
)
