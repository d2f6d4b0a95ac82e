//===- DeviceApi.h - the C ABI between the runtime and an accelerator's module ---------------------===//
//
// Everything that needs a CUDA library lives in one shared object, loaded on demand (Device.h). This table
// is all that the two sides share: plain structs and function pointers, no std types, no protobuf, so that
// the program starts on a machine without any CUDA library and either side can be built alone.
//
//   const TesseraDeviceApi *api = tesseraDeviceApi();       // the module's only exported symbol
//   TesseraMessage why;
//   if (api->open(0, &device, &info, &why) != TESSERA_OK) puts(why.text);
//
// Implementations: runtime/device/cuda, and test/emulator, which runs the same kernels on the CPU.
// Work is enqueued on one of three streams per device and runs asynchronously; a device is driven by one
// thread at a time.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_DEVICEAPI_H
#define TESSERA_RUNTIME_DEVICE_DEVICEAPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_DEVICE_ABI 10

enum { TESSERA_OK = 0, TESSERA_FAILED = 1, TESSERA_UNSUPPORTED = 2, TESSERA_NOT_READY = 3 };
/* Kernels; collectives; input on its way from the host. */
enum { TESSERA_COMPUTE_STREAM = 0, TESSERA_COMM_STREAM = 1, TESSERA_COPY_STREAM = 2, TESSERA_STREAMS = 3 };
/* Element types of library calls; the numbers are those of plan.proto's DType. */
enum {
  TESSERA_F32 = 1,
  TESSERA_F64 = 2,
  TESSERA_F16 = 3,
  TESSERA_BF16 = 4,
  TESSERA_I64 = 5,
  TESSERA_I32 = 6,
  TESSERA_I8 = 7,
  TESSERA_U8 = 8,
  TESSERA_BOOL = 9
};
/* Reductions, as plan.proto's. */
enum { TESSERA_SUM = 1, TESSERA_MAX = 2, TESSERA_MIN = 3 };

typedef struct {
  char text[1024];
} TesseraMessage; /* one sentence, filled on failure */

typedef struct {
  char name[128];
  char bus[32];
  int32_t major, minor; /* compute capability */
  int32_t multiprocessors;
  uint64_t totalBytes, freeBytes;
} TesseraDeviceInfo;

typedef struct TesseraDevice TesseraDevice;
typedef struct TesseraEvent TesseraEvent;
typedef struct TesseraGraph TesseraGraph;
typedef struct TesseraCode TesseraCode; /* a loaded kernel */
typedef struct TesseraOp TesseraOp;     /* a prepared library call */
typedef struct TesseraComm TesseraComm;

/* What is done to a product before it is stored, in this order. */
enum {
  TESSERA_EPILOGUE_BIAS = 1, /* + bias[n], of the result's type */
  TESSERA_EPILOGUE_KEEP = 2, /* what the function below is applied to is stored to aux, too */
  TESSERA_EPILOGUE_RELU = 4, /* max(x, 0) */
  TESSERA_EPILOGUE_GELU = 8, /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
  TESSERA_EPILOGUE_SUM = 16  /* nothing; the sums of b over k are stored to aux[n]. Alone, without a batch, and b is not
                                transposed */
};

/* y[b] = a[b] * b[b], row-major; a is m x k or its transpose, b is k x n or its transpose. Rows of a matrix as it lies
   are `ld*` elements apart, at least as many as they have. Matrices of a batch are `stride*` elements apart; a stride of 0
   repeats the matrix. All matrices begin at multiples of
   `alignment` bytes. `dtype` is that of a and b, `resultType` that of y, aux and bias: the same, or F32 for
   operands of 16 bits; sums are in F32 at least. aux lies like y, but for sums.
   accumulate: the product is added to what y holds, before anything else is done to it. */
typedef struct {
  int32_t dtype, resultType, tf32;
  int32_t alignment, epilogue;
  int32_t transposeA, transposeB, accumulate;
  int64_t m, n, k;
  int64_t ldA, ldB, ldY;
  int64_t batch, strideA, strideB, strideY;
} TesseraMatMul;

/* A cross-correlation in N C [D] H W, or where channels come last, N [D] H W C with filters F [D] R S C.
   kind 0: a = x, b = w, y. 1: a = dy, b = w, y = dx. 2: a = x, b = dy, y = dw. channels and filters are
   totals over the groups; types as for products; no padding is negative. accumulate: the sums are added to what y
   holds before they are rounded. */
typedef struct {
  int32_t kind, dtype, resultType, tf32;
  int32_t spatial, channelsLast; /* spatial: 2 or 3; the last ones of the arrays count */
  int32_t accumulate, reserved;
  int64_t n, groups, channels, filters;
  int64_t in[3], out[3], kernel[3], stride[3], padLow[3], padHigh[3], dilation[3];
} TesseraConv;

/* The tensors of attention: y = softmax(scale * q k^T + bias) v per batch and head, and its gradient. Statistics are the
   logarithm of each row's sum of exponentials, delta is what the gradient writes of each row, dy . y and with dropout
   dy . y / keepScale; both are F32, [batch, head, row]. Keep is what dropout keeps, 1 or 0 of the type of q,
   [batch, head, row, key]. */
enum {
  TESSERA_ATTENTION_Q = 0,
  TESSERA_ATTENTION_K,
  TESSERA_ATTENTION_V,
  TESSERA_ATTENTION_Y,
  TESSERA_ATTENTION_DY,
  TESSERA_ATTENTION_DQ,
  TESSERA_ATTENTION_DK,
  TESSERA_ATTENTION_DV,
  TESSERA_ATTENTION_BIAS,
  TESSERA_ATTENTION_STATISTICS,
  TESSERA_ATTENTION_DELTA,
  TESSERA_ATTENTION_KEEP,
  TESSERA_ATTENTION_TENSORS
};

/* Attention (gradient 0: q, k, v, bias -> y, and where they are wanted the statistics), or its gradient (q, k, v, bias, y,
   statistics, dy -> dq, dk, dv). q, y, dy and dq have `heads` heads, k and v and theirs `keyHeads`, of which each meets
   as many of q, side by side. q and k have rows of `depth` elements, v and y of `width`. Rows, heads and batches of
   the first eight tensors lie as many elements apart as `apart` says [tensor][batch, head, row]; the elements of a
   row lie side by side. causal: a row sees the keys up to its own number, and the probability of the others is 0.
   biasType: F32, or that of q; 0: there is none. Its elements are biasApart apart by batch, head, row and key; 0: it is
   stretched. dropout: probabilities are multiplied by keep and keepScale before they are multiplied with v. They are
   rounded to the type of q for that. A gradient with dropout is not causal. All tensors begin at multiples of 16 bytes. */
typedef struct {
  int32_t gradient, dtype, causal, statistics;
  int32_t biasType, dropout;
  int64_t batches, heads, keyHeads, rows, keys, depth, width;
  int64_t apart[8][3];
  int64_t biasApart[4];
  double scale, keepScale;
} TesseraAttention;

/* Of a library call. bias and aux: null where the epilogue has none; b: where there are two operands. tensors: of
   attention alone, which has nothing else but the workspace. */
typedef struct {
  const void *a, *b, *bias;
  void *y, *aux, *workspace;
  void *tensors[TESSERA_ATTENTION_TENSORS];
} TesseraOperands;

typedef struct {
  char bytes[128];
} TesseraCommId;

typedef struct TesseraDeviceApi {
  uint32_t abi;  /* TESSERA_DEVICE_ABI */
  uint32_t size; /* sizeof(TesseraDeviceApi) */
  const char *kind;

  /* Devices. */
  int32_t (*count)(int32_t *devices, TesseraMessage *m);
  int32_t (*open)(int32_t ordinal, TesseraDevice **device, TesseraDeviceInfo *info, TesseraMessage *m);
  void (*close)(TesseraDevice *device);
  /* The versions of driver and libraries: "driver 13.0, cuDNN 9.19.0". Needs no device. */
  void (*libraries)(TesseraMessage *m);

  /* Memory. Shared memory is device memory that is best for registerMemory. Pinned memory is host memory that
     copies run on asynchronously. Any direction of copy. */
  int32_t (*allocate)(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m);
  int32_t (*allocateShared)(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m);
  void (*release)(TesseraDevice *d, void *memory);
  int32_t (*allocatePinned)(TesseraDevice *d, size_t bytes, void **memory, TesseraMessage *m);
  void (*releasePinned)(TesseraDevice *d, void *memory);
  int32_t (*freeMemory)(TesseraDevice *d, size_t *bytes, TesseraMessage *m); /* now, of the device's own */
  int32_t (*copy)(TesseraDevice *d, int32_t stream, void *to, const void *from, size_t bytes, TesseraMessage *m);
  /* `rows` rows of `width` bytes, whose beginnings are `*Pitch` bytes apart. */
  int32_t (*copyRows)(TesseraDevice *d, int32_t stream, void *to, size_t toPitch, const void *from, size_t fromPitch,
                      size_t width, size_t rows, TesseraMessage *m);
  int32_t (*fill)(TesseraDevice *d, int32_t stream, void *memory, int32_t byte, size_t bytes, TesseraMessage *m);

  /* Streams and events. query: TESSERA_NOT_READY while the stream is busy. */
  int32_t (*query)(TesseraDevice *d, int32_t stream, TesseraMessage *m);
  int32_t (*synchronize)(TesseraDevice *d, int32_t stream, TesseraMessage *m);
  int32_t (*createEvent)(TesseraDevice *d, TesseraEvent **event, TesseraMessage *m);
  void (*destroyEvent)(TesseraDevice *d, TesseraEvent *event);
  int32_t (*record)(TesseraDevice *d, int32_t stream, TesseraEvent *event, TesseraMessage *m);
  int32_t (*wait)(TesseraDevice *d, int32_t stream, TesseraEvent *event, TesseraMessage *m);
  /* A timer is an event that remembers when it was reached: one that is recorded in a graph, when the graph ran
     last. Nothing waits for it. elapsed: between two that have been reached. */
  int32_t (*createTimer)(TesseraDevice *d, TesseraEvent **event, TesseraMessage *m);
  int32_t (*elapsed)(TesseraDevice *d, TesseraEvent *from, TesseraEvent *to, double *seconds, TesseraMessage *m);

  /* Graphs: what is enqueued on the compute stream, and on what was forked from it by events, between
     begin and end is recorded and not run. */
  int32_t (*captureBegin)(TesseraDevice *d, TesseraMessage *m);
  int32_t (*captureEnd)(TesseraDevice *d, TesseraGraph **graph, TesseraMessage *m); /* graph null: discard */
  int32_t (*launchGraph)(TesseraDevice *d, TesseraGraph *graph, TesseraMessage *m);
  void (*destroyGraph)(TesseraDevice *d, TesseraGraph *graph);

  /* Code. compile turns one translation unit into an image for a compute capability (major * 10 + minor)
     and needs no device; the image is freed with freeImage. roundProducts: a product is rounded before it is added;
     otherwise the compiler chooses where both are one instruction. compilerText distinguishes caches: the
     compiler, its version and its options. */
  int32_t (*compile)(const char *source, int32_t capability, int32_t roundProducts, void **image, size_t *bytes,
                     TesseraMessage *m);
  void (*freeImage)(void *image);
  const char *(*compilerText)(void);
  int32_t (*loadCode)(TesseraDevice *d, const void *image, size_t bytes, const char *function, TesseraCode **code,
                      TesseraMessage *m);
  void (*unloadCode)(TesseraDevice *d, TesseraCode *code);
  int32_t (*launch)(TesseraDevice *d, int32_t stream, TesseraCode *code, const uint32_t grid[3], uint32_t block,
                    void **arguments, uint32_t count, TesseraMessage *m);

  /* Library calls on the compute stream. TESSERA_UNSUPPORTED: the library has no such kernel. */
  int32_t (*createMatMul)(TesseraDevice *d, const TesseraMatMul *what, TesseraOp **op, size_t *workspace,
                          TesseraMessage *m);
  int32_t (*createConv)(TesseraDevice *d, const TesseraConv *what, TesseraOp **op, size_t *workspace,
                        TesseraMessage *m);
  int32_t (*createAttention)(TesseraDevice *d, const TesseraAttention *what, TesseraOp **op, size_t *workspace,
                             TesseraMessage *m);
  int32_t (*runOp)(TesseraDevice *d, TesseraOp *op, const TesseraOperands *operands, TesseraMessage *m);
  void (*destroyOp)(TesseraDevice *d, TesseraOp *op);

  /* Collectives, on the communication stream, without waiting for the device. createComm starts and does not
     wait; pollComm says TESSERA_NOT_READY while the communicator is being set up or an operation is being
     enqueued, and TESSERA_FAILED once anything failed asynchronously.
     splitComm makes communicators of parts of a parent's members, which share what the parent has set up. All members
     call it at the same place among the parent's operations, with a part's number and this member's place in it;
     part -1: in none, and *comm is null. Neither the parent nor the new one is used before pollComm says of both that
     they are ready. Split communicators are revoked together, and the parent is destroyed last.
     revokeComm gives up all work of the communicator, on the device, too, and does not wait. It is for failures:
     streams come to rest then, and only destroyComm is allowed. destroyComm waits for the other members, though not for
     ever; after revokeComm it does not. Recorded graphs hold the communicators whose work they have, so they are
     destroyed first. */
  int32_t (*uniqueId)(TesseraCommId *id, TesseraMessage *m);
  int32_t (*createComm)(TesseraDevice *d, const TesseraCommId *id, int32_t members, int32_t me, TesseraComm **comm,
                        TesseraMessage *m);
  int32_t (*splitComm)(TesseraComm *parent, int32_t part, int32_t me, TesseraComm **comm, TesseraMessage *m);
  int32_t (*pollComm)(TesseraComm *comm, TesseraMessage *m);
  void (*revokeComm)(TesseraComm *comm);
  void (*destroyComm)(TesseraComm *comm);
  /* Collectives on registered memory need no copies inside the library. Either all members register what they
     pass, and use it at the same offsets, or none does. TESSERA_UNSUPPORTED: it cannot be registered.
     Deregistered before it is released and the communicator is destroyed. Of a revoked communicator nothing is
     deregistered: it is destroyed before the memory is released. */
  int32_t (*registerMemory)(TesseraComm *comm, void *memory, size_t bytes, void **registration, TesseraMessage *m);
  void (*deregisterMemory)(TesseraComm *comm, void *registration);
  int32_t (*allReduce)(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t reduction,
                       TesseraMessage *m);
  int32_t (*allGather)(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype,
                       TesseraMessage *m); /* count: of in */
  int32_t (*reduceScatter)(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t reduction,
                           TesseraMessage *m); /* count: of out */
  int32_t (*broadcast)(TesseraComm *c, const void *in, void *out, size_t count, int32_t dtype, int32_t root,
                       TesseraMessage *m);
  int32_t (*groupStart)(TesseraComm *c, TesseraMessage *m);
  int32_t (*groupEnd)(TesseraComm *c, TesseraMessage *m);
  int32_t (*send)(TesseraComm *c, const void *from, size_t bytes, int32_t peer, TesseraMessage *m);
  int32_t (*receive)(TesseraComm *c, void *to, size_t bytes, int32_t peer, TesseraMessage *m);
} TesseraDeviceApi;

typedef const TesseraDeviceApi *(*TesseraDeviceEntry)(void);

#ifdef __cplusplus
}
#endif

#endif
