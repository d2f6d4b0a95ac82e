#ifndef TESSERA_DIST_DIALECT_TD
#define TESSERA_DIST_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::tessera::dist";
  let summary = "How things are distributed: mesh, sharding, strategy, collectives";
  let description = [{
    Knows no operator. The module carries `dist.mesh`. From phase 3 on every operator with a sharding rule
    carries `dist.strategy`, and every function argument and result `dist.sharding`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{ void registerOperations(); }]; // DistOps.cpp
}

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` $text `>`";
}

def Dist_MeshAttr : Dist_Attr<"Mesh", "mesh"> {
  let summary = "named axes, major to minor: #dist.mesh<\"data=2,model=2\">";
  let parameters = (ins StringRefParameter<"the text form of Mesh; empty: one rank">:$text);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static MeshAttr get(::mlir::MLIRContext *context, const ::tessera::dist::Mesh &mesh);
    ::tessera::dist::Mesh getMesh() const;
  }];
}

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "a tensor's sharding: #dist.sharding<\"[data, -, model+x] sum(y)\">";
  let description = [{ Axes by name, so that the attribute can be read without its mesh. }];
  let parameters = (ins StringRefParameter<"the text form of Sharding">:$text);
  let extraClassDeclaration = [{
    static ShardingAttr get(::mlir::MLIRContext *context, const ::tessera::dist::Mesh &mesh,
                            const ::tessera::dist::Sharding &sharding);
    /// Fails if an axis is not of this mesh.
    ::llvm::Expected<::tessera::dist::Sharding> resolve(const ::tessera::dist::Mesh &mesh) const;
  }];
}

def Dist_StrategyAttr : Dist_Attr<"Strategy", "strategy"> {
  let summary = "an operator's strategy: #dist.strategy<\"m=data, k=model -> [data, -]\">";
  let description = [{
    Factor names of the operator's rule with the axes that cut them (`n=data+model`), then optionally
    `partial GROUP(axes)` (operand group of the rule's linear clause that arrives partial), then `->` and the
    results' shardings where they are not the natural ones of the factors (all of them, in order).
  }];
  let parameters = (ins StringRefParameter<"the text form of Strategy">:$text);
  let extraClassDeclaration = [{
    static StrategyAttr get(::mlir::MLIRContext *context, const ::tessera::dist::Mesh &mesh,
                            const ::tessera::dist::ShardingRule &rule,
                            const ::tessera::dist::Strategy &strategy);
    ::llvm::Expected<::tessera::dist::Strategy> resolve(const ::tessera::dist::Mesh &mesh,
                                                        const ::tessera::dist::ShardingRule &rule) const;
  }];
}

#endif
