"""Kernels for a GPU that go wrong, in PTX.

Each text has the kernels of the module `fusion-test-module cuda`: `relu`, which is
right, then `add`, whose body is one of FAULTS; "none" adds. A block of 32 threads
computes 32 floats.
"""

HEAD = """.version 8.0
.target sm_80
.address_size 64
"""

KERNEL = """
.visible .entry {name}(.param .align 8 .b8 operands[{bytes}], .param .u64 batch)
{{
  .reg .b64 %at<5>;
  .reg .b32 %i<4>;
  .reg .f32 %f<4>;
  .reg .pred %again;
  mov.u32 %i1, %ctaid.x;
  mov.u32 %i2, %tid.x;
  mad.lo.u32 %i3, %i1, 32, %i2;
  mul.wide.u32 %at4, %i3, 4;
{loads}
{body}
  ret;
}}
"""

RELU = """  ld.global.f32 %f1, [%at1];
  max.f32 %f2, %f1, 0f00000000;
  st.global.f32 [%at2], %f2;"""

FAULTS = {
    "none": """  ld.global.f32 %f1, [%at1];
  ld.global.f32 %f2, [%at2];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%at3], %f3;""",
    # No input of the tests is a NaN with these bits.
    "spin": """AGAIN:
  ld.volatile.global.u32 %i1, [%at1];
  setp.ne.u32 %again, %i1, 0x7fabcdef;
  @%again bra AGAIN;""",
    # Nothing lies behind the first page.
    "stray": """  mov.u64 %at1, 16;
  st.global.f32 [%at1], 0f3f800000;""",
    "misaligned": """  add.u64 %at1, %at1, 2;
  ld.global.f32 %f1, [%at1];
  st.global.f32 [%at3], %f1;""",
    "trap": "  trap;",
    "bad": "  no.such.instruction;",
}


def kernel(name, count, body):
    loads = "\n".join(f"  ld.param.u64 %at{i}, [operands+{8 * i - 8}];\n  add.u64 %at{i}, %at{i}, %at4;"
                      for i in range(1, count + 1))
    return KERNEL.format(name=name, bytes=8 * count, loads=loads, body=body)


def text(fault):
    """The PTX of both kernels."""
    names = ("twice", "exponential", "poison", "spin")  # that no command launches
    return (HEAD + kernel("relu", 2, RELU) + kernel("add", 3, FAULTS[fault])
            + "".join(kernel(name, 2, RELU) for name in names))
