#ifndef TESSERA_DIST_INTERFACES_TD
#define TESSERA_DIST_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::tessera::dist";
  let description = [{
    An operator that says how it may be sharded. All that distributes programs (enumeration, propagation,
    cost, partition) asks this interface and nothing else.
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
      Called by partition after this operator's operand and result types became local: adjusts attributes
      that hold global sizes or indices. `ctx` says the shardings and halos. Default: nothing to do.
    }],
                    "void", "localize", (ins "const ::tessera::dist::LocalizeContext &":$ctx), "",
                    /*default=*/"(void)ctx;">,
    InterfaceMethod<[{
      Attributes of this operator that depend on the rank (offsets of a shard): computed at emission for
      one rank, added to the kernel's attributes, replacing those of equal name. Default: none.
    }],
                    "void", "rankAttributes",
                    (ins "const ::tessera::dist::LocalizeContext &":$ctx, "int64_t":$rank,
                         "::llvm::SmallVectorImpl<::mlir::NamedAttribute> &":$attributes), "",
                    /*default=*/"(void)ctx; (void)rank; (void)attributes;">,
    InterfaceMethod<[{
      Floating-point operations for the given local operand and result shapes (multiply and add count as
      two); the cost model's input beside the bytes. Default: one per result element.
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
