#ifndef TESSERA_DIST_DIALECT_TD
#define TESSERA_DIST_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::tessera::dist";
  let summary = "How things are distributed: mesh, sharding, strategy, collectives";
  let description = [{
    The dialect names no operator of the graph dialect. The module carries `dist.mesh`. From phase 3 on every operator
    with a sharding rule carries `dist.strategy`, and every function argument and result carries `dist.sharding`.
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
  let description = [{ The text names axes, so the attribute can be parsed without its mesh. }];
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
    The text lists the factors of the operator's rule that are cut, with their axes (`n=data+model`). `partial
    GROUP(axes)` may follow: that operand group of the rule's linear clause arrives partial. `->` and the shardings of
    all results, in order, follow where they are not the natural ones of the factors.
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
