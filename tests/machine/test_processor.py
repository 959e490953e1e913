"""The processor as Linux describes it, on x86 and on Arm."""

import pytest

from pinnace.machine import processor

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
    for variable in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):  # they limit this run, not the made-up CPU
        monkeypatch.delenv(variable, raising=False)

    def say(text):
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
        for function in ("_facts", "features", "features_of_cpuid", "identity"):
            plain = getattr(processor, function)
            monkeypatch.setattr(processor, function, getattr(plain, "__wrapped__", plain))

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


# Linux: Documentation/arch/arm64/elf_hwcaps.rst and arch/x86/include/asm/cpufeatures.h
NAMES = {
    "avx2": "AVX2", "avx_vnni": "AVX-VNNI", "avx512f": "AVX-512", "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16", "avx512_fp16": "AVX-512 FP16", "amx_int8": "AMX INT8",
    "amx_bf16": "AMX BF16", "amx_fp16": "AMX FP16", "asimd": "NEON", "asimdhp": "FP16",
    "asimddp": "DotProd", "i8mm": "I8MM", "bf16": "BF16", "sve": "SVE", "sve2": "SVE2", "sme": "SME",
}  # fmt: skip


@pytest.mark.parametrize(("flag", "name"), NAMES.items())
def test_each_instruction_set_has_the_name_of_its_maker(cpuinfo, flag, name):
    cpuinfo(f"flags : fpu {flag}\n")
    assert processor.instruction_sets() == (name,)


@pytest.mark.parametrize(
    ("machine", "flags", "block"),
    [("x86_64", "avx2", 8), ("x86_64", "avx512f", 16), ("aarch64", "asimd", 16)],
)
def test_channels_of_a_block_are_those_of_onnxruntimes_kernels(cpuinfo, monkeypatch, machine, flags, block):
    """MlasNchwcGetBlockSize: 16 with AVX-512 and on Arm, else 8."""
    cpuinfo(X86)
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    monkeypatch.setattr(processor, "features_of_cpuid", lambda: {flags})
    assert processor.block_of_channels() == block


def test_what_kernels_depend_on_changes_the_identity_and_nothing_else_does(cpuinfo, monkeypatch):
    def identity(text):
        cpuinfo(text)
        return processor.identity()

    first = identity(X86)
    assert identity(X86.replace("model name", "bogomips : 1\nmodel name")) == first
    for known, other in (
        ("GenuineIntel", "AuthenticAMD"),
        (" amx_int8", ""),
        ("vendor_id", "model : 7\nvendor_id"),
    ):
        assert identity(X86.replace(known, other)) != first, other
    arm = identity(ARM)
    assert all(identity(ARM.replace(value, "0x1")) != arm for value in ("0x41", "0xd49", " bf16"))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "avx2")
    assert identity(X86) != first
    monkeypatch.setattr(processor.platform, "machine", lambda: "riscv64")
    assert "riscv64" in identity(X86)


def test_a_processor_without_cpuinfo_has_a_name_and_an_identity(cpuinfo, monkeypatch, tmp_path):
    cpuinfo("")
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "none")
    assert processor.name() == processor.platform.machine()
    assert processor.platform.machine() in processor.identity()
    assert processor.instruction_sets() == ()


_AVX2, _AVX512 = {"avx2"}, {"avx2", "avx_vnni", "avx512f"}


# https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html
@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
@pytest.mark.parametrize(
    ("limit", "left"),
    [
        ("SSE41", set()),
        ("AVX", set()),
        ("avx2", _AVX2),
        ("AVX2_VNNI", _AVX2 | {"avx_vnni"}),
        ("AVX512_CORE", _AVX512),
        ("AVX512_CORE_VNNI", _AVX512 | {"avx512_vnni"}),
        ("AVX512_CORE_BF16", _AVX512 | {"avx512_vnni", "avx512_bf16"}),
        ("AVX512_CORE_FP16", _AVX512 | {"avx512_vnni", "avx512_bf16", "avx512_fp16"}),
        ("AVX10_9", None),
    ],
)
def test_features_beyond_the_limit_of_onednn_are_left_out(cpuinfo, monkeypatch, variable, limit, left):
    cpuinfo(X86.replace(" avx2", " avx_vnni avx512_bf16 avx512_fp16 avx2"))
    whole, of_cpuid = processor.features(), processor.features_of_cpuid()
    monkeypatch.setenv(variable, limit)
    assert processor.features() == (whole if left is None else {"fpu"} | left)
    assert processor.features_of_cpuid() - processor.features() <= of_cpuid
