"""Files as releases of MindSpore Lite after 2.7 write them, made by `tools/with_*/make_newer_*.py`."""

from pathlib import Path

import numpy as np
import pytest

from pinnace import Model
from pinnace.errors import ModelFormatError, UnsupportedModelError

DATA = Path(__file__).parent / "data" / "newer"
FILES = sorted(DATA.glob("*.ms"))


def test_all_files_are_there():
    assert len(FILES) == 4


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_what_newer_releases_write_is_computed_by_its_formula(path):
    golden = np.load(path.with_suffix(".npz"))
    (result,) = Model(path).predict([golden["x0"]])
    np.testing.assert_allclose(
        result.get_data_to_numpy(), golden["y0"], rtol=1e-5, atol=1e-6
    )  # exp of float32
    assert result.get_data_to_numpy().dtype == golden["y0"].dtype


def test_a_field_of_a_later_release_is_refused_by_its_table():
    with pytest.raises(ModelFormatError, match=r"later_field.ms: byte \d+: .*has field number 1.*after 2.11"):
        Model(DATA / "later" / "later_field.ms")


def test_a_primitive_of_a_later_release_is_refused_by_its_number():
    with pytest.raises(UnsupportedModelError, match="PrimitiveType_222"):
        Model(DATA / "later" / "later_primitive.ms")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("version", "mind_ir_version is 4, of a release of MindSpore after 2.10"),
        ("attribute", "attribute 'later' is of type 41, which only releases of MindSpore after 2.10 write"),
    ],
)
def test_a_mindir_of_a_later_release_is_refused_by_name(name, message):
    with pytest.raises(ModelFormatError, match=message):
        Model(DATA / "later" / f"later_{name}.mindir")
