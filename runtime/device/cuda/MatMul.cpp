// Matrix products by cuBLASLt.
//
// cuBLASLt is column-major. Row-major y = a * b is column-major y^T = b^T * a^T over the same memory, so that
// its first operand is our b and its second our a; a row-major [r, c] matrix is a column-major c x r one with
// leading dimension c. A vector over our columns is one over its rows: what its epilogues call a bias.
//
// Operands of 16 bits are multiplied as they are and summed in F32.
#include "runtime/device/cuda/Common.h"

#include <cublasLt.h>

#include <memory>

namespace tessera::device {

void destroyBlas(TesseraDevice *d) {
  if (d->blas)
    cublasLtDestroy(d->blas);
}

namespace {

constexpr size_t kWorkspace = size_t(32) << 20; // what NVIDIA recommends for Hopper

int32_t failBlas(TesseraMessage *m, cublasStatus_t status, const char *what) {
  return fail(m, std::string("cuBLASLt: ") + what + " failed: " + cublasLtGetStatusString(status));
}

#define TESSERA_BLAS(call, what)                                                                                       \
  do {                                                                                                                 \
    if (cublasStatus_t status_ = (call); status_ != CUBLAS_STATUS_SUCCESS)                                             \
      return failBlas(m, status_, what);                                                                               \
  } while (false)

} // namespace

int32_t failChoice(TesseraMessage *m, int status) {
  const int32_t code = failBlas(m, cublasStatus_t(status), "choosing an algorithm");
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ? TESSERA_UNSUPPORTED : code;
}

namespace {

struct MatMulOp final : TesseraOp {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace = 0;
  bool isDouble = false, sums = false, accumulates = false;
  const void *bias = nullptr, *aux = nullptr; // the pointers that the description holds

  ~MatMulOp() override {
    for (cublasLtMatrixLayout_t layout : {first, second, result})
      if (layout)
        cublasLtMatrixLayoutDestroy(layout);
    if (desc)
      cublasLtMatmulDescDestroy(desc);
  }

  int32_t run(TesseraDevice *d, const TesseraOperands &o, TesseraMessage *m) override {
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const void *alpha = isDouble ? static_cast<const void *>(&one64) : &one;
    const void *beta = accumulates ? alpha : isDouble ? static_cast<const void *>(&zero64) : &zero;
    if (int32_t code = point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, sums ? o.aux : o.bias, bias, m))
      return code;
    if (int32_t code = point(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, sums ? nullptr : o.aux, aux, m))
      return code;
    TESSERA_BLAS(cublasLtMatmul(d->blas, desc, alpha, o.b, first, o.a, second, beta, o.y, result, o.y, result,
                                &algorithm, o.workspace, workspace, d->streams[TESSERA_COMPUTE_STREAM]),
                 "a matrix product");
    return TESSERA_OK;
  }

  int32_t point(cublasLtMatmulDescAttributes_t name, const void *to, const void *&now, TesseraMessage *m) {
    if (to != now)
      TESSERA_BLAS(cublasLtMatmulDescSetAttribute(desc, name, &to, sizeof to), "describing an epilogue");
    now = to;
    return TESSERA_OK;
  }
};

int32_t makeLayout(cublasLtMatrixLayout_t *layout, cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld,
                   int64_t batch, int64_t stride, TesseraMessage *m) {
  TESSERA_BLAS(cublasLtMatrixLayoutCreate(layout, type, uint64_t(rows), uint64_t(cols), ld), "describing a matrix");
  int32_t count = int32_t(batch);
  TESSERA_BLAS(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
               "describing a batch");
  TESSERA_BLAS(
      cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
      "describing a batch");
  return TESSERA_OK;
}

cudaDataType_t typeOf(int32_t dtype) {
  return dtype == TESSERA_F64    ? CUDA_R_64F
         : dtype == TESSERA_F16  ? CUDA_R_16F
         : dtype == TESSERA_BF16 ? CUDA_R_16BF
                                 : CUDA_R_32F;
}

/// Tells the library what follows the product.
int32_t describeEpilogue(const TesseraMatMul &w, MatMulOp &op, TesseraMessage *m) {
  if (w.epilogue == 0)
    return TESSERA_OK;
  const bool bias = w.epilogue & TESSERA_EPILOGUE_BIAS, keep = w.epilogue & TESSERA_EPILOGUE_KEEP;
  const bool gelu = w.epilogue & TESSERA_EPILOGUE_GELU, relu = w.epilogue & TESSERA_EPILOGUE_RELU;
  // The value that cuBLASLt keeps for ReLU is a bit mask, and for GELU it needs rows of a multiple of 8 elements.
  op.sums = w.epilogue & TESSERA_EPILOGUE_SUM;
  const bool single = w.epilogue == TESSERA_EPILOGUE_SUM && w.batch == 1 && !w.transposeB;
  if ((keep && (!gelu || w.ldY % 8 != 0)) || (gelu && relu) || (op.sums && !single) || op.isDouble)
    return fail(m, "cuBLASLt has no such epilogue", TESSERA_UNSUPPORTED);
  // What it sums over k is its first operand, our b. What it calls the gradient of a bias is of the result's type.
  const cublasLtEpilogue_t epilogue =
      op.sums ? CUBLASLT_EPILOGUE_BGRADA
      : gelu  ? (keep ? (bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX)
                      : (bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU))
      : relu  ? (bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
              : CUBLASLT_EPILOGUE_BIAS;
  TESSERA_BLAS(cublasLtMatmulDescSetAttribute(op.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
               "describing an epilogue");
  // The choice of an algorithm reads only the alignment of these addresses. run() sets the real ones.
  const void *aligned = reinterpret_cast<const void *>(static_cast<uintptr_t>(w.alignment));
  if (bias || op.sums)
    if (int32_t code = op.point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned, op.bias, m))
      return code;
  if (keep) {
    if (int32_t code = op.point(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned, op.aux, m))
      return code;
    const int64_t ld = w.ldY, stride = w.batch > 1 ? w.strideY : 0;
    TESSERA_BLAS(cublasLtMatmulDescSetAttribute(op.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld),
                 "describing an epilogue");
    TESSERA_BLAS(
        cublasLtMatmulDescSetAttribute(op.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &stride, sizeof stride),
        "describing an epilogue");
  }
  return TESSERA_OK;
}

int32_t prepare(TesseraDevice *d, const TesseraMatMul &w, MatMulOp &op, TesseraMessage *m) {
  if (!d->blas)
    TESSERA_BLAS(cublasLtCreate(&d->blas), "starting the library");
  op.isDouble = w.dtype == TESSERA_F64;
  op.accumulates = w.accumulate;
  const cudaDataType_t type = typeOf(w.dtype), resultType = typeOf(w.resultType);
  const cublasComputeType_t compute = op.isDouble                        ? CUBLAS_COMPUTE_64F
                                      : w.tf32 && w.dtype == TESSERA_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                         : CUBLAS_COMPUTE_32F;
  TESSERA_BLAS(cublasLtMatmulDescCreate(&op.desc, compute, op.isDouble ? CUDA_R_64F : CUDA_R_32F),
               "describing a product");
  const cublasOperation_t opFirst = w.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t opSecond = w.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  TESSERA_BLAS(cublasLtMatmulDescSetAttribute(op.desc, CUBLASLT_MATMUL_DESC_TRANSA, &opFirst, sizeof opFirst),
               "describing a product");
  TESSERA_BLAS(cublasLtMatmulDescSetAttribute(op.desc, CUBLASLT_MATMUL_DESC_TRANSB, &opSecond, sizeof opSecond),
               "describing a product");
  // The column-major sizes of b, a and y in memory.
  const int64_t firstRows = w.transposeB ? w.k : w.n, firstCols = w.transposeB ? w.n : w.k;
  const int64_t secondRows = w.transposeA ? w.m : w.k, secondCols = w.transposeA ? w.k : w.m;
  if (int32_t code = makeLayout(&op.first, type, firstRows, firstCols, w.ldB, w.batch, w.strideB, m))
    return code;
  if (int32_t code = makeLayout(&op.second, type, secondRows, secondCols, w.ldA, w.batch, w.strideA, m))
    return code;
  if (int32_t code = makeLayout(&op.result, resultType, w.n, w.m, w.ldY, w.batch, w.strideY, m))
    return code;
  if (int32_t code = describeEpilogue(w, op, m))
    return code;

  struct Preference {
    cublasLtMatmulPreference_t p = nullptr;
    ~Preference() {
      if (p)
        cublasLtMatmulPreferenceDestroy(p);
    }
  } preference;
  TESSERA_BLAS(cublasLtMatmulPreferenceCreate(&preference.p), "choosing an algorithm");
  TESSERA_BLAS(cublasLtMatmulPreferenceSetAttribute(preference.p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                                    sizeof kWorkspace),
               "choosing an algorithm");
  // Partial sums may be added in the type of sums, but not in that of the result.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  TESSERA_BLAS(cublasLtMatmulPreferenceSetAttribute(preference.p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                    &reductions, sizeof reductions),
               "choosing an algorithm");
  const uint32_t alignment = uint32_t(w.alignment);
  for (cublasLtMatmulPreferenceAttributes_t name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    TESSERA_BLAS(cublasLtMatmulPreferenceSetAttribute(preference.p, name, &alignment, sizeof alignment),
                 "choosing an algorithm");
  cublasLtMatmulHeuristicResult_t found = {};
  int results = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(d->blas, op.desc, op.first, op.second, op.result, op.result,
                                                         preference.p, 1, &found, &results);
  if (status == CUBLAS_STATUS_SUCCESS && results == 0)
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (status != CUBLAS_STATUS_SUCCESS)
    return failChoice(m, int(status));
  op.algorithm = found.algo;
  op.workspace = found.workspaceSize;
  return TESSERA_OK;
}

int32_t createMatMul(TesseraDevice *d, const TesseraMatMul *what, TesseraOp **op, size_t *workspace,
                     TesseraMessage *m) {
  const bool half = what->dtype == TESSERA_F16 || what->dtype == TESSERA_BF16;
  if ((!half && what->dtype != TESSERA_F32 && what->dtype != TESSERA_F64) ||
      (what->resultType != what->dtype && !(half && what->resultType == TESSERA_F32)) || what->m < 1 || what->n < 1 ||
      what->k < 1 || what->m > INT32_MAX || what->n > INT32_MAX || what->k > INT32_MAX || what->batch > INT32_MAX)
    return fail(m, "cuBLASLt is used for non-empty products of floating-point numbers", TESSERA_UNSUPPORTED);
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  auto made = std::make_unique<MatMulOp>();
  if (int32_t code = prepare(d, *what, *made, m))
    return code;
  *workspace = made->workspace;
  *op = made.release();
  return TESSERA_OK;
}

int32_t runOp(TesseraDevice *d, TesseraOp *op, const TesseraOperands *operands, TesseraMessage *m) {
  cudaSetDevice(d->ordinal);
  return op->run(d, *operands, m);
}

void destroyOp(TesseraDevice *, TesseraOp *op) { delete op; }

} // namespace

std::string blasLibrary() {
  const size_t version = cublasLtGetVersion(); // 130100 is 13.1.0
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void addMatMul(TesseraDeviceApi &api) {
  api.createMatMul = createMatMul;
  api.runOp = runOp;
  api.destroyOp = destroyOp;
}

} // namespace tessera::device
