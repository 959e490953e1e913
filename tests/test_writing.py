"""Files for users appear whole or not at all, and over nothing that was read for them."""

import ast
import mmap
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace
from pinnace.converter.convert import Conversion, convert
from pinnace.errors import FileWriteError
from pinnace.types import ModelType
from pinnace.weights.source import Source
from pinnace.writing import replacing

OLD, NEW = b"a good older file", b"a new one"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file").write_bytes(OLD)
    return tmp_path


def write(path, inputs=(), beside=None):
    with replacing(path, inputs) as place:
        place.write_bytes(NEW)
        if beside:
            place.with_name(beside).write_bytes(NEW)


@pytest.fixture
def model(tmp_path):
    """A model whose weights are in a file beside it."""
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    return path


def to_mindir(model, output, stage=lambda name: None):
    return convert(Source.of_file(model), ModelType.ONNX, output, Conversion(check=True), stage)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_what_is_interrupted_leaves_the_older_file_and_nothing_else(error, folder):
    def stopped():
        with replacing(folder / "file") as place:
            place.write_bytes(NEW)
            raise error

    with pytest.raises(error):
        stopped()
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("file", OLD)]


def test_a_mapping_of_the_older_file_keeps_its_bytes(folder):
    with open(folder / "file", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        write(folder / "file")
        assert (mapped[:], (folder / "file").read_bytes()) == (OLD, NEW)


def test_modes_are_those_that_open_gives(folder):
    before = os.umask(0o027)
    try:
        write(folder / "new")
    finally:
        os.umask(before)
    (folder / "file").chmod(0o604)
    write(folder / "file")
    assert [oct((folder / name).stat().st_mode & 0o777) for name in ("new", "file")] == ["0o640", "0o604"]


def test_a_link_stays_and_its_file_is_replaced(folder):
    (folder / "link").symlink_to("file")
    write(folder / "link")
    assert (folder / "link").is_symlink()
    assert (folder / "file").read_bytes() == NEW


def test_files_appear_with_the_one_that_names_them_last(folder, monkeypatch):
    order = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (order.append(self.name), replace(self, to)))
    with replacing(folder / "m.onnx") as place:
        (place.parent / "m_variables").mkdir()
        for name in ("m_0.onnx", "m_variables/data_0", "a.data"):
            (place.parent / name).write_bytes(NEW)
    assert sorted(order[:2]) == ["a.data", "data_0"]
    assert order[2:] == ["m_0.onnx"]
    assert (folder / "m_variables" / "data_0").read_bytes() == NEW


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_what_is_read_is_not_written(link, folder):
    target = folder / "file"
    if link:
        target = folder / "other"
        link(folder / "file", target)
    with pytest.raises(FileWriteError, match=rf"{target} cannot be written: it is read for this"):
        write(target, inputs=[folder / "file"])
    with pytest.raises(FileWriteError, match="it is read for this"):
        write(folder / "x", inputs=[target], beside="file")
    assert (folder / "file").read_bytes() == OLD
    assert not (folder / "x").exists()


def test_devices_and_pipes_are_written_to(tmp_path):
    write(Path(os.devnull))
    script = (
        "import sys; from pathlib import Path; from pinnace.writing import replacing\n"
        "with replacing(Path(sys.argv[1])) as place: place.write_bytes(b'here')\n"
        "print(' and on')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", script, "/dev/stdout"], stdout=out, check=True)
    assert (tmp_path / "out").read_bytes().endswith(b" and on\n")
    done = subprocess.run([sys.executable, "-c", script, "/dev/stdout"], capture_output=True, check=True)
    assert done.stdout == b"here and on\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_error(folder):
    folder.chmod(0o500)
    try:
        with pytest.raises(FileWriteError, match=f"{folder}/new cannot be written: permission denied for"):
            write(folder / "new")
    finally:
        folder.chmod(0o700)


def test_a_device_without_space_is_named():
    with pytest.raises(FileWriteError, match="/dev/full cannot be written: no space left on device"):
        write(Path("/dev/full"))


def test_a_conversion_that_does_not_fit_is_one_error_and_leaves_nothing(model):
    script = "import sys; from pinnace.cli import main; sys.argv[0] = 'pinnace'; main()"
    output = model.with_name("out.mindir")
    done = subprocess.run(
        [sys.executable, "-c", script, "convert", model, output],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"pinnace: {output} cannot be written: file too large"
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.onnx", "weights"]


def test_an_interrupted_conversion_leaves_the_older_file(model):
    output = model.with_name("out.mindir")
    output.write_bytes(OLD)

    def stop(name):
        if name == "checking":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_mindir(model, output, stop)
    assert output.read_bytes() == OLD
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.onnx", "out.mindir", "weights"]


def test_a_conversion_onto_its_own_input_is_refused(model):
    mindir = model.with_name("m.mindir")
    to_mindir(model, mindir)
    before = mindir.read_bytes()
    stages = []
    with pytest.raises(FileWriteError, match="it is read for this"):
        convert(Source.of_file(mindir), None, mindir, Conversion(), stages.append)
    assert not stages, "refused before any work"
    assert mindir.read_bytes() == before
    mindir.unlink()
    mindir.symlink_to("weights")  # the weights of the model, by another name
    with pytest.raises(FileWriteError, match="it is read for this"):
        to_mindir(model, mindir)


# ---- the rule: whoever writes, writes into a block of `replacing`, or stands here with the reason

ELSEWHERE = {
    "writing.py": "the rule itself",
    "cache/": "the compile cache has a discipline of its own",
    "building/partition.py": "into a folder of the compile cache",
    "engines/onnxruntime/export.py": "into a folder of the compile cache",
    "engines/openvino/engine.py": "into a folder of the compile cache",
    "machine/file_lock.py": "an empty file, whose lock it takes",
    "machine/memory.py": "/proc",
    "serving/ray/models.py": "into a folder of the compile cache",
    "serving/processes.py": "/dev/null",
    "cli/launch.py": "/dev/null",
    "distributed/watchdog.py": "the table of ranks in /dev/shm",
    "server/shared_memory.py": "a region of shared memory that a client registered",
    "formats/": "the file that the converter gives it, from `replacing`",
    "converter/caffe/__init__.py": "into a temporary folder of the converter",
    "converter/convert.py:_encrypt": "into the folder of `replacing`",
    "cpp/build.py:_lay_out": "into the folder of `replacing`",
}
WRITES = {"write_text", "write_bytes", "savefig", "save", "savez", "savez_compressed", "savetxt", "tofile"}
COPIES = {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copyfileobj", "copytree", "move")}
FLAGS = {"O_CREAT", "O_WRONLY", "O_RDWR", "O_TRUNC", "O_APPEND"}


def writes(call):
    """Say whether a call writes a file, as far as its text shows."""
    name = ast.unparse(call.func)
    if name == "os.open":
        return any(isinstance(n, ast.Attribute) and n.attr in FLAGS for n in ast.walk(call))
    if name.rpartition(".")[2] == "open":
        modes = [a.value for a in (*call.args[:2], *(k.value for k in call.keywords if k.arg == "mode"))
                 if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
        return any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)
    return name in COPIES or (isinstance(call.func, ast.Attribute) and call.func.attr in WRITES)


def unguarded(node, function=""):
    """Return the functions and lines of writing calls outside of blocks of `replacing`."""
    if isinstance(node, ast.FunctionDef):
        function = node.name
    guards = node.items if isinstance(node, ast.With) else []
    if any(ast.unparse(guard.context_expr).startswith("replacing(") for guard in guards):
        return []
    own = [(function, node.lineno)] if isinstance(node, ast.Call) and writes(node) else []
    return own + [found for child in ast.iter_child_nodes(node) for found in unguarded(child, function)]


def test_nothing_else_writes_files():
    root = Path(pinnace.__file__).parent
    found = [
        f"{path.relative_to(root)}:{function}:{line}"
        for path in sorted(root.rglob("*.py"))
        for function, line in unguarded(ast.parse(path.read_text(encoding="utf-8")))
    ]
    others = [place for place in found if not place.startswith(tuple(ELSEWHERE))]
    assert not others, "use pinnace.writing.replacing"
    stale = [known for known in ELSEWHERE if not any(place.startswith(known) for place in found)]
    assert not stale


@pytest.mark.parametrize(
    ("free", "reason"), [(0, "no space left on device"), (9, "3 requested and 2 written")]
)
def test_numpy_does_not_say_that_a_disk_is_full(monkeypatch, tmp_path, free, reason):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(FileWriteError, match=reason), replacing(tmp_path / "a"):
        raise OSError("3 requested and 2 written")
