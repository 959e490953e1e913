"""Write `.mindir` files as releases of MindSpore after 2.10 may, for the reader to refuse.

    python tools/with_mindspore/make_newer_mindir.py tests/data/newer/later

Both are tests/data/versions/2.10.0/indexing.mindir but for one number: that of the format, and the type of one attribute.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pinnace.formats.mindir.schema import number_of, written_class

SOURCE = Path(__file__).parents[2] / "tests/data/versions/2.10.0/indexing.mindir"


def main(folder: Path) -> None:
    """Write the files."""
    later = 1 + max(number_of("Version").values())
    kind = 1 + max(number_of("AttributeProto.AttributeType").values())
    for name in ("version", "attribute"):
        model = written_class()()
        model.ParseFromString(SOURCE.read_bytes())
        if name == "version":
            model.mind_ir_version = later
        else:
            model.primitives[0].attribute.add(name="later", type=kind)
        (folder / f"later_{name}.mindir").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
