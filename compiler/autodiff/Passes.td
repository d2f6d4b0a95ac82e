//===- Passes.td - the passes of compiler/autodiff -----------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_PASSES_TD
#define TESSERA_COMPILER_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def GradientPass : Pass<"graph-gradient", "::mlir::ModuleOp"> {
  let summary = "Appends the gradients of a function's first result as further results";
  let description = [{
    The first result must be a floating-point tensor of rank 0. The gradients are ordinary graph operators in the same
    function (compiler/autodiff/Gradient.h). An argument that the result does not depend on has the gradient zero.

    ```mlir
    // --graph-gradient="function=loss"
    func.func @loss(%x: tensor<3xf32>) -> tensor<f32>                     // before
    func.func @loss(%x: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)    // after
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"forward\"", "The function to differentiate">,
    ListOption<"wrt", "wrt", "unsigned", "Argument numbers; none: every floating-point argument">,
  ];
}

#endif
