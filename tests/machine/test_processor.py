"""The processor as Linux describes it, on x86 and on Arm."""

import pytest

from pinnace.machine import cores, processor

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu avx2 avx512f avx512_vnni amx_bf16 amx_int8

processor\t: 1
"""
ARM = """processor\t: 0
Features\t: fp asimd asimdhp asimddp bf16
CPU implementer\t: 0x41
CPU part\t: 0xd49
"""


@pytest.fixture
def cpuinfo(monkeypatch, tmp_path):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)  # it limits this run, not the made-up CPU

    def say(text):
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
        for function in ("_facts", "features", "features_of_cpuid"):
            monkeypatch.setattr(processor, function, getattr(processor, function).__wrapped__)

    return say


@pytest.mark.parametrize(
    ("text", "name", "sets"),
    [
        (X86, "Intel(R) Xeon(R) Processor", ("AVX2", "AVX-512", "AVX-512 VNNI", "AMX INT8", "AMX BF16")),
        (ARM, "CPU implementer 0x41 CPU part 0xd49", ("NEON", "FP16", "DotProd", "BF16")),
    ],
)
def test_name_and_instruction_sets(cpuinfo, text, name, sets):
    cpuinfo(text)
    assert (processor.name(), processor.instruction_sets()) == (name, sets)


def test_a_processor_without_cpuinfo_has_a_name(cpuinfo, tmp_path):
    cpuinfo("")
    assert processor.name()
    assert processor.instruction_sets() == ()


def test_caches(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "_CPU", tmp_path)
    monkeypatch.setattr(cores, "allowed_cores", lambda: (2, 3))
    for index, facts in enumerate((("1", "Data", "48K", "2"), ("3", "Unified", "32768K", "0-2,6-7"))):
        folder = tmp_path / "cpu2" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, fact in zip(("level", "type", "size", "shared_cpu_list"), facts, strict=True):
            (folder / name).write_text(fact + "\n")
    (tmp_path / "cpu2" / "cache" / "index2").mkdir()  # without the files
    assert list(map(str, cores.caches())) == ["L1d 48 KiB", "L3 32 MiB for 5 cores"]
    monkeypatch.setattr(cores, "_CPU", tmp_path / "none")
    assert cores.caches() == []


@pytest.mark.parametrize(
    ("limit", "left"),
    [("avx2", {"avx2"}), ("AVX512_CORE_VNNI", {"avx2", "avx512f", "avx512_vnni"}), ("AVX10_9", set())],
)
def test_features_beyond_the_limit_of_onednn_are_left_out(cpuinfo, monkeypatch, limit, left):
    cpuinfo(X86)
    whole, of_cpuid = processor.features(), processor.features_of_cpuid()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert processor.features() == ({"fpu"} | left if left else whole)
    assert processor.features_of_cpuid() - processor.features() <= of_cpuid
