"""`pinnace convert` to `.ms`."""

from pathlib import Path

from pinnace.formats.ms import reader
from pinnace.weights.source import Source

MODEL = Path(__file__).parent.parent / "data" / "converted" / "network.onnx"


def test_the_suffix_chooses_the_format(pinnace, tmp_path):
    assert pinnace("convert", MODEL, tmp_path / "made.ms").code == 0
    read = reader.read(Source.of_file(tmp_path / "made.ms"))
    assert list(read.output_names) == ["scores"]
