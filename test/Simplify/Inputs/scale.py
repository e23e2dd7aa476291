# Prints a large graph: scale.py KIND SIZE.
#   known   a chain of SIZE adds of 1 to a constant 0: its value is SIZE
#   chain   a chain of SIZE adds of 1 to an argument
#   ladder  sum and product of the last two, SIZE times; inlined,
#           it would have 2^SIZE ops
#   wide    SIZE independent chains of a convolution's channels-last kind
import sys

kind, size = sys.argv[1], int(sys.argv[2])
scalar = "tensor<i32>"
lines = []
if kind in ("known", "chain"):
    x = "%zero" if kind == "known" else "%x"
    lines += ["%%zero = fusion.constant dense<0> : %s" % scalar, "%%one = fusion.constant dense<1> : %s" % scalar]
    for i in range(size):
        lines.append("%%v%d = fusion.add %s, %%one : %s" % (i, x, scalar))
        x = "%%v%d" % i
    argument = scalar
elif kind == "ladder":
    lines += ["%%one = fusion.constant dense<1> : %s" % scalar, "%%a = fusion.sub %%x, %%one : %s" % scalar]
    last = ["%x", "%a"]
    for i in range(size):
        lines.append("%%c%d = fusion.add %s, %s : %s" % (i, last[-1], last[-2], scalar))
        lines.append("%%d%d = fusion.mul %s, %s : %s" % (i, last[-1], last[-2], scalar))
        last += ["%%c%d" % i, "%%d%d" % i]
    x, argument = last[-1], scalar
else:
    argument = "tensor<1x2x3x4xf32>"
    lines.append("%%c = fusion.max_pool %%x window = [1, 1] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0]"
                 " dilations = [1, 1] layout = nchw : %s" % argument)
    for i in range(size):
        lines.append("%%r%d = fusion.relu %%c : %s" % (i, argument))
        lines.append("%%n%d = fusion.neg %%r%d : %s" % (i, i, argument))
    lines.append("%%k = fusion.concat %s axis = 1 : %s" % (
        ", ".join("%%n%d" % i for i in range(size)), ", ".join([argument] * size)))
    x = "%k"
result = "tensor<1x%dx3x4xf32>" % (2 * size) if kind == "wide" else scalar
print("func.func @main(%%x: %s) -> %s {\n  %s\n  return %s : %s\n}" % (argument, result, "\n  ".join(lines), x, result))
