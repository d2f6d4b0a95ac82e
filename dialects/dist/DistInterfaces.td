#ifndef TESSERA_DIST_INTERFACES_TD
#define TESSERA_DIST_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::tessera::dist";
  let description = [{
    An operator that says how it may be sharded. Enumeration, propagation, cost and partition learn about an operator
    from this interface only.
  }];
  let methods = [
    InterfaceMethod<"The rule's text as on the ODS line; \"custom\" if it is built in C++.",
                    "::llvm::StringRef", "getRuleText", (ins)>,
    InterfaceMethod<[{The rule for this operator's shapes and attributes.}],
                    "::llvm::Expected<::tessera::dist::ShardingRule>", "getShardingRule", (ins), /*body=*/"",
                    /*default=*/[{
      ::mlir::Operation *op = $_op.getOperation();
      return ::tessera::dist::buildRule($_op.getRuleText(), op);
    }]>,
    InterfaceMethod<[{
      Adjusts attributes that hold global sizes or indices. Partition calls it after this operator's operand and result
      types became local. `ctx` holds the shardings and halos. Default: changes nothing.
    }],
                    "void", "localize", (ins "const ::tessera::dist::LocalizeContext &":$ctx), "",
                    /*default=*/"(void)ctx;">,
    InterfaceMethod<[{
      Computes the kernel attributes that depend on the rank (offsets of a block), for one rank. They replace the
      operator's attributes of the same name. Partition calls it right after `localize`. Default: none.
    }],
                    "void", "rankAttributes",
                    (ins "const ::tessera::dist::LocalizeContext &":$ctx, "int64_t":$rank,
                         "::llvm::SmallVectorImpl<::mlir::NamedAttribute> &":$attributes), "",
                    /*default=*/"(void)ctx; (void)rank; (void)attributes;">,
    InterfaceMethod<[{
      The number of floating-point operations for the given local operand and result shapes, an input of the cost
      model. A multiplication and an addition count as two. Default: one per result element.
    }],
                    "double", "getFlops",
                    (ins "::llvm::ArrayRef<::llvm::SmallVector<int64_t>>":$operandShapes,
                         "::llvm::ArrayRef<::llvm::SmallVector<int64_t>>":$resultShapes), "",
                    /*default=*/[{
      (void)operandShapes;
      double flops = 0;
      for (const auto &shape : resultShapes) {
        double n = 1;
        for (int64_t d : shape)
          n *= double(d);
        flops += n;
      }
      return flops;
    }]>,
  ];
}

#endif
