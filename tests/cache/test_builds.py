"""Builds through the compile cache: what is found, what is not, and what goes wrong."""

import os
import shutil
import subprocess
import sys
import textwrap
import time

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace
from pinnace.cache import entry, store
from pinnace.cache.folder import size_of
from pinnace.engines.onnxruntime.engine import Onnxruntime
from pinnace.errors import PinnaceWarning
from pinnace.options.settings import Settings

from .conftest import X, close_to, make_model, predict


def make_a_chain(path, length, files=0):
    """x (1, 512) plus vectors of 0, 1, 2 and so on, which lie in this file, in another, or in one each."""
    nodes = [helper.make_node("Add", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(length)]
    vectors = [numpy_helper.from_array(np.full(512, i, np.float32), f"w{i}") for i in range(length)]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 512]) for n in ("t0", f"t{length}"))
    graph = helper.make_graph(nodes, "chain", [x], [y], vectors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    how = {"all_tensors_to_one_file": files == 1, "location": "weights.bin" if files == 1 else None}
    onnx.save(model, path, save_as_external_data=files > 0, size_threshold=0, **how)


@pytest.fixture
def compiled(monkeypatch):
    """The names of the models that were compiled, not loaded."""
    names = []
    compile_ = Onnxruntime.compile

    def counting(self, graph, *rest):
        names.append(graph.name)
        return compile_(self, graph, *rest)

    monkeypatch.setattr(Onnxruntime, "compile", counting)
    return names


def entries(cache):
    return sorted((cache / "entries").iterdir())


def test_a_model_is_compiled_once_and_its_results_stay(cache, product, compiled):
    path, weight = product
    first, second = predict(path), predict(path)
    assert len(compiled) == 1
    assert first == close_to(weight)
    np.testing.assert_array_equal(first, second)


def test_name_and_place_do_not_matter(cache, product, compiled, tmp_path):
    path, weight = product
    predict(path)
    other = tmp_path / "elsewhere" / "other.onnx"
    other.parent.mkdir()
    shutil.copy(path, other)
    path.unlink()
    assert predict(other) == close_to(weight)
    assert predict(other.read_bytes()) == close_to(weight)
    assert len(compiled) == 1


def test_a_buffer_may_be_filled_with_something_else(cache, tmp_path):
    make_a_chain(tmp_path / "chain.onnx", 4)
    x, expected = np.zeros((1, 512), np.float32), np.full((1, 512), 6)
    buffer = bytearray((tmp_path / "chain.onnx").read_bytes())
    for model in (buffer, memoryview(buffer), memoryview(np.repeat(np.frombuffer(buffer, np.uint8), 2))[::2]):
        with pinnace.Model() as built, pinnace.Model() as other:
            built.build_from_buffer(model, pinnace.ModelType.ONNX)
            other.build_from_file(str(tmp_path / "chain.onnx"), pinnace.ModelType.ONNX)
            before = bytes(buffer)
            buffer[:] = bytes(len(buffer))
            np.testing.assert_array_equal(built.predict([x])[0].get_data_to_numpy(), expected)
            np.testing.assert_array_equal(other.predict([x])[0].get_data_to_numpy(), expected)
            buffer[:] = before


def test_a_changed_file_of_the_same_name_size_and_time_is_another_model(cache, product, compiled):
    path, _ = product
    predict(path)
    before = path.stat()
    new = make_model(path, seed=9)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert predict(path) == close_to(new)
    assert len(compiled) == 2


def test_weights_beside_the_graph_are_part_of_the_content(cache, tmp_path, compiled):
    path = tmp_path / "outside.onnx"
    old = make_model(path, external="weights.bin")
    graph = path.read_bytes()
    assert predict(path) == close_to(old)
    (tmp_path / "weights.bin").unlink()
    new = make_model(path, seed=9, external="weights.bin")
    assert path.read_bytes() == graph, "only the weights differ"
    assert predict(path) == close_to(new)
    assert predict(path) == close_to(new)
    assert len(compiled) == 2
    (tmp_path / "weights.bin").unlink()
    make_model(path, external="weights.bin")
    assert predict(path) == close_to(old), "both are kept"
    assert len(compiled) == 2


@pytest.mark.parametrize("place", ["cache", "off"])
@pytest.mark.parametrize("external", ["", "weights.bin"])
def test_a_file_that_changes_during_the_build_is_told_and_not_kept(
    cache, tmp_path, monkeypatch, place, external
):
    if place == "off":
        monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    path = tmp_path / "model.onnx"
    make_model(path, external=external)
    for method in ("compile", "build"):
        real = getattr(Onnxruntime, method)

        def changing(self, *arguments, real=real):
            changed = tmp_path / (external or "model.onnx")
            changed.unlink()
            make_model(path, seed=9, external=external)
            return real(self, *arguments)

        monkeypatch.setattr(Onnxruntime, method, changing)
    with pytest.raises(pinnace.errors.ModelFormatError, match="changed during or after the build"):
        predict(path)
    assert not cache.exists() or not list(cache.glob("entries/*"))


@pytest.mark.parametrize("external", ["", "weights.bin"])
def test_a_file_that_is_written_in_place_and_gets_its_old_time_during_the_build_is_not_kept(
    cache, tmp_path, monkeypatch, external
):
    path = tmp_path / "model.onnx"
    make_model(path, external=external)
    original, real = tmp_path / (external or "model.onnx"), Onnxruntime.compile

    def changing(self, *arguments):
        status, data = original.stat(), bytearray(original.read_bytes())
        data[-100:] = bytes(100)
        with original.open("r+b") as file:
            file.write(data)
        os.utime(original, ns=(status.st_atime_ns, status.st_mtime_ns))
        return real(self, *arguments)

    monkeypatch.setattr(Onnxruntime, "compile", changing)
    with pytest.raises(pinnace.errors.ModelFormatError, match="changed during the build"):
        predict(path)
    assert not list(cache.glob("entries/*"))


def damage_a_weight(entry):
    (tensor,) = (entry / "tensors").iterdir()
    with tensor.open("r+b") as file:
        file.seek(1000)
        file.write(b"\x7f" * 4)


def truncate_the_graph(entry):
    os.truncate(entry / "graph.onnx", 20)


def remove_the_graph(entry):
    (entry / "graph.onnx").unlink()


def edit_the_description(entry):
    meta = entry / "meta.json"
    meta.write_text(meta.read_text().replace("FLOAT32", "FLOAT16"))


def remove_the_description(entry):
    (entry / "meta.json").unlink()


def make_the_description_a_folder(entry):
    (entry / "meta.json").unlink()
    (entry / "meta.json").mkdir()


def make_the_description_a_loop(entry):
    (entry / "meta.json").unlink()
    (entry / "meta.json").symlink_to("meta.json")


def make_the_entry_a_file(entry):
    shutil.rmtree(entry)
    entry.write_text("")


@pytest.mark.parametrize(
    "damage",
    [
        damage_a_weight,
        truncate_the_graph,
        remove_the_graph,
        edit_the_description,
        remove_the_description,
        make_the_description_a_folder,
        make_the_description_a_loop,
        make_the_entry_a_file,
    ],
)
def test_a_damaged_entry_is_noticed_and_made_anew(cache, product, compiled, damage):
    path, weight = product
    predict(path)
    (entry,) = entries(cache)
    damage(entry)
    with pytest.warns(PinnaceWarning, match="compiled again"):
        assert predict(path) == close_to(weight)
    assert len(compiled) == 2
    assert predict(path) == close_to(weight)
    assert len(compiled) == 2


def test_a_damaged_note_of_the_files_beside_it_is_made_anew(cache, tmp_path, recwarn):
    path = tmp_path / "outside.onnx"
    weight = make_model(path, external="weights.bin")
    predict(path)
    (note,) = (cache / "refers").iterdir()
    whole = note.read_bytes()
    os.truncate(note, 5)
    assert predict(path) == close_to(weight)
    assert note.read_bytes() == whole
    assert len(entries(cache)) == 1
    assert not recwarn.list


def test_an_entry_that_was_copied_is_compared_once_and_trusted_again(cache, product, compiled):
    path, weight = product
    predict(path)
    shutil.copytree(cache, cache.with_name("copy"))
    shutil.rmtree(cache)
    cache.with_name("copy").rename(cache)
    assert predict(path) == close_to(weight)
    assert len(compiled) == 1


@pytest.mark.parametrize("where", ["/proc/pinnace", "/dev/null/pinnace"])
def test_a_cache_that_cannot_be_written_means_a_warning_and_a_build(product, monkeypatch, where):
    path, weight = product
    monkeypatch.setenv("PINNACE_CACHE_DIR", where)
    with pytest.warns(PinnaceWarning, match="compile cache: .*(off|without it)"):
        assert predict(path) == close_to(weight)


@pytest.mark.parametrize("where", ["/nobody\udcff", "~nobody-of-this-name/cache", "/" + 300 * "x"])
def test_a_name_that_no_folder_can_have_means_a_warning_and_a_build(product, monkeypatch, where):
    path, weight = product
    monkeypatch.setenv("PINNACE_CACHE_DIR", where)
    with pytest.warns(PinnaceWarning, match="compile cache: off"):
        assert predict(path) == close_to(weight)


def test_a_user_without_a_home_gets_a_warning_and_a_build(product, monkeypatch):
    path, weight = product
    for name in ("PINNACE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(uid):
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.warns(PinnaceWarning, match="set PINNACE_CACHE_DIR"):
        assert predict(path) == close_to(weight)


def test_a_full_disk_means_a_warning_and_a_build(cache, product):
    path, _ = product
    script = """
        import resource, sys, warnings
        import numpy as np
        import pinnace
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        model = pinnace.Model()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.build_from_file(sys.argv[1], pinnace.ModelType.ONNX)
        assert "without it" in str(caught[0].message), caught
        assert np.isfinite(model.predict([np.ones((3, 128), np.float32)])[0].get_data_to_numpy()).all()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(path)], check=True)
    assert not list((cache / "new").iterdir())
    assert not (cache / "entries").exists() or not entries(cache)


_LOSING = pytest.mark.skipif(sys.version_info < (3, 13), reason="there a mapping keeps its file open")


@pytest.mark.parametrize("files", [1, pytest.param(150, marks=_LOSING)])
def test_weights_take_fewer_open_files_than_they_are(cache, tmp_path, files):
    make_a_chain(tmp_path / "chain.onnx", 150, files)
    script = """
        import resource, sys
        import numpy as np
        import pinnace
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        for _ in range(2):
            model = pinnace.Model()
            model.build_from_file(sys.argv[1], pinnace.ModelType.ONNX)
            outputs = model.predict([np.zeros((1, 512), np.float32)])
            np.testing.assert_array_equal(outputs[0].get_data_to_numpy(), sum(range(150)))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "chain.onnx")], check=True)


def test_a_cache_that_is_removed_during_a_build_means_a_warning(cache, product, monkeypatch):
    path, weight = product
    stamp = entry.stamp

    def removing(folder):
        (folder / "graph.onnx").unlink()
        stamp(folder)

    monkeypatch.setattr(entry, "stamp", removing)
    with pytest.warns(PinnaceWarning, match=r"without it: .*graph\.onnx is missing"):
        assert predict(path) == close_to(weight)


def test_off_means_off(product, monkeypatch, tmp_path, compiled):
    path, weight = product
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    assert predict(path) == close_to(weight)
    assert not compiled


def test_the_configuration_names_a_folder_of_the_users_own(cache, product, tmp_path):
    path, _ = product
    own = tmp_path / "own"
    model = pinnace.Model()
    options = {"ms_cache": {"serialize_path": str(own)}}
    model.build_from_file(str(path), pinnace.ModelType.ONNX, config_dict=options)
    assert len(entries(own)) == 1
    assert not cache.exists()


def test_what_was_not_used_for_longest_goes_first(cache, tmp_path, monkeypatch):
    paths = [tmp_path / f"{i}.onnx" for i in range(3)]
    for seed, path in enumerate(paths):
        make_model(path, seed)
    predict(paths[0])
    size = sum(f.stat().st_size for f in entries(cache)[0].rglob("*"))
    monkeypatch.setenv("PINNACE_CACHE_LIMIT", str(2.5 * size / 1e9))
    predict(paths[1])
    time.sleep(0.02)  # so that times of use differ
    predict(paths[0])
    (kept,) = [e for e in entries(cache) if "0.onnx" in (e / "meta.json").read_text()]
    predict(paths[2])
    assert len(entries(cache)) == 2
    assert kept in entries(cache)
    assert len(list((cache / "tensors").iterdir())) == 2, "its weight went with it"


def test_files_of_a_cache_are_not_counted_for_each_entry(cache, tmp_path, monkeypatch):
    counts = []
    monkeypatch.setattr(store, "size_of", lambda *folders: counts.append(len(folders)) or size_of(*folders))
    for seed in range(4):
        make_model(tmp_path / f"{seed}.onnx", seed)
        predict(tmp_path / f"{seed}.onnx")
    assert counts == [1, 1, 1, 1, 1], "the first entry, all of the cache, and the three others"


def test_entries_of_other_processes_count_after_a_hundredth_of_the_limit(cache, tmp_path, monkeypatch):
    for seed in range(3):
        make_model(tmp_path / f"{seed}.onnx", seed)
    predict(tmp_path / "0.onnx")
    (first,) = entries(cache)
    size = size_of(first)
    monkeypatch.setenv("PINNACE_CACHE_LIMIT", str(90 * size / 1e9))
    of_another = first.with_name("f" * 64)
    of_another.mkdir()
    (of_another / "weights").write_bytes(bytes(90 * size))
    predict(tmp_path / "1.onnx")
    assert len(entries(cache)) == 2


def test_models_with_the_same_weight_have_one_file_of_it(cache, tmp_path):
    make_model(tmp_path / "a.onnx", name="weight")
    make_model(tmp_path / "b.onnx", name="other")
    predict(tmp_path / "a.onnx")
    predict(tmp_path / "b.onnx")
    inodes = {f.stat().st_ino for e in entries(cache) for f in (e / "tensors").iterdir()}
    assert len(entries(cache)) == 2
    assert len(inodes) == 1


def test_a_weight_that_cannot_be_shared_is_the_entrys_own(cache, tmp_path, recwarn):
    weight = make_model(tmp_path / "a.onnx", name="weight")
    make_model(tmp_path / "b.onnx", name="other")
    predict(tmp_path / "a.onnx")
    (common,) = (cache / "tensors").iterdir()
    common.unlink()
    common.mkdir()
    assert predict(tmp_path / "b.onnx") == close_to(weight)
    assert len(entries(cache)) == 2
    assert not recwarn.list


BUILD = """
    import sys
    import numpy as np
    import pinnace
    from pinnace.engines.onnxruntime.engine import Onnxruntime

    compile_ = Onnxruntime.compile
    def counting(self, *arguments):
        print("compiling", flush=True)
        return compile_(self, *arguments)
    Onnxruntime.compile = counting
    model = pinnace.Model()
    model.build_from_file(sys.argv[1], pinnace.ModelType.ONNX)
    x = np.load(sys.argv[2])
    np.save(sys.argv[3], model.predict([x])[0].get_data_to_numpy())
"""


def build_elsewhere(path, out, **options):
    x = out.with_name("x.npy")
    np.save(x, X)
    command = [sys.executable, "-c", textwrap.dedent(BUILD), str(path), str(x), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def test_processes_that_build_the_same_model_at_once_compile_it_once(cache, product, tmp_path):
    path, weight = product
    outs = [tmp_path / f"{i}.npy" for i in range(4)]
    logs = [p.communicate()[0] for p in [build_elsewhere(path, out) for out in outs]]
    assert sum(text.count("compiling") for text in logs) == 1
    for out in outs:
        assert np.load(out) == close_to(weight)


def test_builders_that_are_killed_leave_nothing_and_hinder_nobody(cache, tmp_path):
    path = tmp_path / "large.onnx"
    weight = make_model(path, outputs=20_000)
    for delay in (0.0, 0.02, 0.05, 0.1):
        builder = build_elsewhere(path, tmp_path / "out.npy")
        builder.stdout.readline()  # it compiles; or it finds what the one before wrote in time, and ends
        time.sleep(delay)
        builder.kill()
        builder.wait()
    with pinnace.Model() as model:
        model.build_from_file(str(path), pinnace.ModelType.ONNX)
        assert model.predict([X])[0].get_data_to_numpy() == close_to(weight)
    assert not list((cache / "new").iterdir())
    assert len(entries(cache)) == 1


def test_a_process_that_finds_its_model_imports_no_compiler(cache, product, tmp_path):
    path, _ = product
    predict(path)
    script = """
        import sys
        import pinnace
        model = pinnace.Model()
        model.build_from_file(sys.argv[1], pinnace.ModelType.ONNX)
        print(sorted({"onnx", "onnx_ir", "google.protobuf"} & sys.modules.keys()))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    assert subprocess.check_output(command, text=True).strip() == "[]"


def test_a_child_after_a_fork_finds_it_too(cache, tmp_path):
    path = tmp_path / "large.onnx"
    make_model(path, outputs=150_000)  # 77 MB: more than one thread hashes it
    predict(path)
    child = os.fork()
    if child == 0:
        predict(path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("limit", ["much", "nan", "inf"])
def test_a_wrong_limit_is_told(cache, product, monkeypatch, limit):
    monkeypatch.setenv("PINNACE_CACHE_LIMIT", limit)
    with pytest.raises(pinnace.errors.ConfigError, match="PINNACE_CACHE_LIMIT must be a number of GB"):
        predict(product[0])


def test_an_impossible_model_is_an_error_and_leaves_nothing(cache, tmp_path):
    path = tmp_path / "wrong.onnx"
    make_model(path)
    model = onnx.load(path)
    model.graph.node[0].op_type = "NoSuchOperator"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(pinnace.errors.UnsupportedModelError):
        predict(path)
    assert not list((cache / "new").iterdir())


def test_a_cache_in_memory_takes_half_of_it_at_most(cache, monkeypatch):
    monkeypatch.setattr(store, "usable_memory", lambda: 1 << 30)
    monkeypatch.setattr(store, "lies_in_memory", lambda path: path == cache)
    assert store.Store.from_settings(Settings()).limit == 1 << 29
    monkeypatch.setenv("PINNACE_CACHE_LIMIT", "0.1")
    assert store.Store.from_settings(Settings()).limit == 100_000_000


@pytest.mark.parametrize("kind", ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"])
def test_weights_of_few_bits_are_what_the_file_has(cache, tmp_path, kind):
    weight = np.random.default_rng(2).integers(0, 8, (128, 64)).astype(getattr(ml_dtypes, kind))
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[n,128] x) => (float[n,64] y)
        <float one = {1}> { d = DequantizeLinear(w, one) y = MatMul(x, d) }"""
    path = tmp_path / "few.onnx"
    ir.save(ir.from_onnx_text(text, initializers=[ir.tensor(weight, name="w")]), path)
    for model in (path, path, path.read_bytes()):  # the second time from the cache
        assert predict(model) == close_to(weight.astype(np.float32))


def test_a_convolution_of_bytes_is_kept(cache, tmp_path):
    """Without VNNI onnxruntime packs its weights in two parts, one of which is empty."""
    weight = np.random.default_rng(2).integers(-99, 99, (16, 16, 3, 3)).astype(np.int8)
    text = """<ir_version: 10, opset_import: ["": 21]> g (int8[1,16,8,8] x) => (int8[1,16,6,6] y)
        <float s = {0.05}, int8 z = {0}, float w_s = {0.001}, float r = {0.1}>
        { y = QLinearConv(x, s, z, w, w_s, z, r, z) }"""
    path = tmp_path / "bytes.onnx"
    ir.save(ir.from_onnx_text(text, initializers=[ir.tensor(weight, name="w")]), path)
    image, results = np.resize(np.arange(-100, 100, dtype=np.int8), (1, 16, 8, 8)), []
    for state in ("written", "loaded"):
        model = pinnace.Model()
        model.build_from_file(str(path), pinnace.ModelType.ONNX)
        assert model.get_model_info("cache") == state
        results.append(model.predict([image])[0].get_data_to_numpy())
    np.testing.assert_array_equal(*results)
