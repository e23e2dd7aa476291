//===- BinaryOps.td - Elementwise ops of two operands --------------------===//
//
// Arithmetic and logic ops on two elements of one type.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_BINARYOPS_TD
#define FUSION_IR_BINARYOPS_TD

include "fusion/IR/ElementwiseBase.td"

def Fusion_AddOp : Fusion_BinaryOp<"add", Fusion_NumberTensor, [Commutative]> {
  let summary = "the sum of two elements";
  let description = [{
    Each element of the result is `a + b`.

    Example:
    ```mlir
    %y = fusion.add %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_SubOp : Fusion_BinaryOp<"sub", Fusion_NumberTensor> {
  let summary = "the difference of two elements";
  let description = [{
    Each element of the result is `a - b`.

    Example:
    ```mlir
    %y = fusion.sub %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_MulOp : Fusion_BinaryOp<"mul", Fusion_NumberTensor, [Commutative]> {
  let summary = "the product of two elements";
  let description = [{
    Each element of the result is `a * b`.

    Example:
    ```mlir
    %y = fusion.mul %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_DivOp : Fusion_BinaryOp<"div", Fusion_NumberTensor, [], 4> {
  let summary = "the quotient of two elements";
  let description = [{
    Each element of the result is `a / b; integers truncate toward zero, a / 0 is -1 and the least integer / -1 is itself`.

    Example:
    ```mlir
    %y = fusion.div %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_RemOp : Fusion_BinaryOp<"rem", Fusion_NumberTensor, [], 4> {
  let summary = "the remainder of two elements";
  let description = [{
    Each element of the result is `a - b * trunc(a / b), with the sign of a; for integers a rem 0 is a`.

    Example:
    ```mlir
    %y = fusion.rem %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_PowOp : Fusion_BinaryOp<"pow", Fusion_FloatTensor, [], 16> {
  let summary = "the power of two elements";
  let description = [{
    Each element of the result is `a^b as C's pow`.

    Example:
    ```mlir
    %y = fusion.pow %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_MaxOp : Fusion_BinaryOp<"max", Fusion_NumberTensor, [Commutative]> {
  let summary = "the larger value of two elements";
  let description = [{
    Each element of the result is `maximum: NaN if either is NaN, +0 above -0`.

    Example:
    ```mlir
    %y = fusion.max %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_MinOp : Fusion_BinaryOp<"min", Fusion_NumberTensor, [Commutative]> {
  let summary = "the smaller value of two elements";
  let description = [{
    Each element of the result is `minimum: NaN if either is NaN, -0 below +0`.

    Example:
    ```mlir
    %y = fusion.min %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_Atan2Op : Fusion_BinaryOp<"atan2", Fusion_FloatTensor, [], 16> {
  let summary = "the arc tangent of a quotient of two elements";
  let description = [{
    Each element of the result is `the angle of (b, a), as C's atan2(a, b)`.

    Example:
    ```mlir
    %y = fusion.atan2 %a, %b : tensor<4xf32>
    ```
  }];
}

def Fusion_AndOp : Fusion_BinaryOp<"and", Fusion_LogicTensor, [Commutative]> {
  let summary = "the bitwise and of two elements";
  let description = [{
    Each element of the result is `each bit: a and b`.

    Example:
    ```mlir
    %y = fusion.and %a, %b : tensor<4xi1>
    ```
  }];
}

def Fusion_OrOp : Fusion_BinaryOp<"or", Fusion_LogicTensor, [Commutative]> {
  let summary = "the bitwise or of two elements";
  let description = [{
    Each element of the result is `each bit: a or b`.

    Example:
    ```mlir
    %y = fusion.or %a, %b : tensor<4xi1>
    ```
  }];
}

def Fusion_XorOp : Fusion_BinaryOp<"xor", Fusion_LogicTensor, [Commutative]> {
  let summary = "the bitwise exclusive or of two elements";
  let description = [{
    Each element of the result is `each bit: a xor b`.

    Example:
    ```mlir
    %y = fusion.xor %a, %b : tensor<4xi1>
    ```
  }];
}

def Fusion_ShiftLeftOp : Fusion_BinaryOp<"shift_left", Fusion_IntTensor> {
  let summary = "the shift to the left of two elements";
  let description = [{
    Each element of the result is `a * 2^b; 0 when b is not in [0, width)`.

    Example:
    ```mlir
    %y = fusion.shift_left %a, %b : tensor<4xi32>
    ```
  }];
}

def Fusion_ShiftRightOp : Fusion_BinaryOp<"shift_right", Fusion_IntTensor> {
  let summary = "the logical shift to the right of two elements";
  let description = [{
    Each element of the result is `a shifted right logically by b; 0 when b is not in [0, width)`.

    Example:
    ```mlir
    %y = fusion.shift_right %a, %b : tensor<4xi32>
    ```
  }];
}

#endif // FUSION_IR_BINARYOPS_TD
