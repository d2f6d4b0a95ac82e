// The operators of operators.mlir with extents that no mesh of the test divides: blocks are padded, and what the
// padding holds is made worse than it would be (see operator_strategies_test.cpp). Spatial dimensions of windows
// are even: windows refuse padding.


func.func @neg(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.neg %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @abs(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.abs %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @sign(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.sign %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @exp(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.exp %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @log(%x: tensor<5x7xf32> {test.low = 1}) -> tensor<5x7xf32> { %y = graph.log %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @sqrt(%x: tensor<5x7xf32> {test.low = 1}) -> tensor<5x7xf32> { %y = graph.sqrt %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @rsqrt(%x: tensor<5x7xf32> {test.low = 1}) -> tensor<5x7xf32> { %y = graph.rsqrt %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @reciprocal(%x: tensor<5x7xf32> {test.low = 1}) -> tensor<5x7xf32> { %y = graph.reciprocal %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @tanh(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.tanh %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @sigmoid(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.sigmoid %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @erf(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.erf %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @sin(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.sin %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @cos(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.cos %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @atan(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.atan %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @relu(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.relu %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @floor(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.floor %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @ceil(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.ceil %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @round(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.round %x : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @not(%x: tensor<5x7xi1>) -> tensor<5x7xi1> { %y = graph.not %x : (tensor<5x7xi1>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @cast(%x: tensor<5x7xf32>) -> tensor<5x7xf64> { %y = graph.cast %x : (tensor<5x7xf32>) -> tensor<5x7xf64> return %y : tensor<5x7xf64> }
func.func @cast_to_bool(%x: tensor<5x7xf32>) -> tensor<5x7xi1> { %y = graph.cast %x : (tensor<5x7xf32>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @cast_to_integer(%x: tensor<5x7xf32>) -> tensor<5x7xi64> { %y = graph.cast %x : (tensor<5x7xf32>) -> tensor<5x7xi64> return %y : tensor<5x7xi64> }
func.func @cast_from_integer(%x: tensor<5x7xi64>) -> tensor<5x7xf32> { %y = graph.cast %x : (tensor<5x7xi64>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }

func.func @add(%a: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<5x7xf32> { %y = graph.add %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @sub(%a: tensor<5x1xf32>, %b: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.sub %a, %b : (tensor<5x1xf32>, tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @mul(%a: tensor<5x7xf32>, %b: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.mul %a, %b : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @mul_broadcast(%a: tensor<2x1x5xf32>, %b: tensor<7x1xf32>) -> tensor<2x7x5xf32> { %y = graph.mul %a, %b : (tensor<2x1x5xf32>, tensor<7x1xf32>) -> tensor<2x7x5xf32> return %y : tensor<2x7x5xf32> }
func.func @div(%a: tensor<5x7xf32>, %b: tensor<7xf32> {test.low = 1}) -> tensor<5x7xf32> { %y = graph.div %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @div_integer(%a: tensor<5x7xi64>, %b: tensor<7xi64> {test.low = 1}) -> tensor<5x7xi64> { %y = graph.div %a, %b : (tensor<5x7xi64>, tensor<7xi64>) -> tensor<5x7xi64> return %y : tensor<5x7xi64> }
func.func @pow(%a: tensor<5x7xf32> {test.low = 1}, %b: tensor<7xf32>) -> tensor<5x7xf32> { %y = graph.pow %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @max(%a: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<5x7xf32> { %y = graph.max %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @min(%a: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<5x7xf32> { %y = graph.min %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @mod(%a: tensor<5x7xf32>, %b: tensor<7xf32> {test.low = 1}) -> tensor<5x7xf32> { %y = graph.mod %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @eq(%a: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<5x7xi1> { %y = graph.eq %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @lt(%a: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<5x7xi1> { %y = graph.lt %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @le(%a: tensor<5x7xf32>, %b: tensor<7xf32>) -> tensor<5x7xi1> { %y = graph.le %a, %b : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @and(%a: tensor<5x7xi1>, %b: tensor<7xi1>) -> tensor<5x7xi1> { %y = graph.and %a, %b : (tensor<5x7xi1>, tensor<7xi1>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @or(%a: tensor<5x7xi1>, %b: tensor<7xi1>) -> tensor<5x7xi1> { %y = graph.or %a, %b : (tensor<5x7xi1>, tensor<7xi1>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @xor(%a: tensor<5x7xi1>, %b: tensor<7xi1>) -> tensor<5x7xi1> { %y = graph.xor %a, %b : (tensor<5x7xi1>, tensor<7xi1>) -> tensor<5x7xi1> return %y : tensor<5x7xi1> }
func.func @select(%c: tensor<5x7xi1>, %a: tensor<5x7xf32>, %b: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.select %c, %a, %b : (tensor<5x7xi1>, tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }

func.func @constant_splat() -> tensor<5x7xf32> { %y = graph.constant dense<2.5> : tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @iota() -> tensor<5x7xi64> { %y = graph.iota {dim = 1 : i64} : () -> tensor<5x7xi64> return %y : tensor<5x7xi64> }
func.func @iota_outer() -> tensor<7x5xf32> { %y = graph.iota {dim = 0 : i64} : () -> tensor<7x5xf32> return %y : tensor<7x5xf32> }
func.func @random(%step: tensor<i64> {test.low = 5, test.high = 5}) -> tensor<5x7x5xf32> { %y = graph.random %step {seed = 7 : i64, stream = 3 : i64} : (tensor<i64>) -> tensor<5x7x5xf32> return %y : tensor<5x7x5xf32> }

func.func @broadcast(%x: tensor<7x1xf32>) -> tensor<5x7x5xf32> { %y = graph.broadcast %x : (tensor<7x1xf32>) -> tensor<5x7x5xf32> return %y : tensor<5x7x5xf32> }
func.func @reshape_merge(%x: tensor<5x7x2xf32>) -> tensor<5x14xf32> { %y = graph.reshape %x : (tensor<5x7x2xf32>) -> tensor<5x14xf32> return %y : tensor<5x14xf32> }
func.func @reshape_split(%x: tensor<5x6xf32>) -> tensor<5x2x3xf32> { %y = graph.reshape %x : (tensor<5x6xf32>) -> tensor<5x2x3xf32> return %y : tensor<5x2x3xf32> }
func.func @reshape_skew(%x: tensor<5x6x5xf32>) -> tensor<5x5x6xf32> { %y = graph.reshape %x : (tensor<5x6x5xf32>) -> tensor<5x5x6xf32> return %y : tensor<5x5x6xf32> }
func.func @reshape_ones(%x: tensor<7xf32>) -> tensor<1x7x1x1xf32> { %y = graph.reshape %x : (tensor<7xf32>) -> tensor<1x7x1x1xf32> return %y : tensor<1x7x1x1xf32> }
func.func @transpose(%x: tensor<5x2x7xf32>) -> tensor<7x5x2xf32> { %y = graph.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<5x2x7xf32>) -> tensor<7x5x2xf32> return %y : tensor<7x5x2xf32> }
func.func @slice(%x: tensor<7x9x5xf32>) -> tensor<7x4x5xf32> { %y = graph.slice %x {starts = array<i64: 0, 1, 0>, limits = array<i64: 7, 9, 5>, strides = array<i64: 1, 2, 1>} : (tensor<7x9x5xf32>) -> tensor<7x4x5xf32> return %y : tensor<7x4x5xf32> }
func.func @pad(%x: tensor<7x3x5xf32>) -> tensor<7x8x5xf32> { %y = graph.pad %x {lo = array<i64: 0, 1, 0>, hi = array<i64: 0, 2, 0>, inner = array<i64: 0, 1, 0>, value = 0.0 : f64} : (tensor<7x3x5xf32>) -> tensor<7x8x5xf32> return %y : tensor<7x8x5xf32> }
func.func @pad_one(%x: tensor<7x3xf32>) -> tensor<7x4xf32> { %y = graph.pad %x {lo = array<i64: 0, 1>, hi = array<i64: 0, 0>, inner = array<i64: 0, 0>, value = 1.0 : f64} : (tensor<7x3xf32>) -> tensor<7x4xf32> return %y : tensor<7x4xf32> }
func.func @concat(%a: tensor<7x2x5xf32>, %b: tensor<7x3x5xf32>) -> tensor<7x5x5xf32> { %y = graph.concat %a, %b {dim = 1 : i64} : (tensor<7x2x5xf32>, tensor<7x3x5xf32>) -> tensor<7x5x5xf32> return %y : tensor<7x5x5xf32> }
func.func @gather(%t: tensor<7x5xf32>, %i: tensor<5x2xi64> {test.low = 0, test.high = 6}) -> tensor<5x2x5xf32> { %y = graph.gather %t, %i {axis = 0 : i64} : (tensor<7x5xf32>, tensor<5x2xi64>) -> tensor<5x2x5xf32> return %y : tensor<5x2x5xf32> }
func.func @gather_inner(%t: tensor<5x7x2xf32>, %i: tensor<5xi64> {test.low = 0, test.high = 6}) -> tensor<5x5x2xf32> { %y = graph.gather %t, %i {axis = 1 : i64} : (tensor<5x7x2xf32>, tensor<5xi64>) -> tensor<5x5x2xf32> return %y : tensor<5x5x2xf32> }
func.func @scatter_add(%i: tensor<5x2xi64> {test.low = 0, test.high = 6}, %u: tensor<5x2x5xf32>) -> tensor<7x5xf32> { %y = graph.scatter_add %i, %u {axis = 0 : i64, size = 7 : i64} : (tensor<5x2xi64>, tensor<5x2x5xf32>) -> tensor<7x5xf32> return %y : tensor<7x5xf32> }

func.func @gather_batched(%t: tensor<5x2x7x2xf32>, %i: tensor<5x5x2xi64> {test.low = 0, test.high = 6}) -> tensor<5x2x5x2x2xf32> { %y = graph.gather %t, %i {axis = 2 : i64, batch_dims = 1 : i64} : (tensor<5x2x7x2xf32>, tensor<5x5x2xi64>) -> tensor<5x2x5x2x2xf32> return %y : tensor<5x2x5x2x2xf32> }
func.func @scatter_add_batched(%i: tensor<5x5x2xi64> {test.low = 0, test.high = 6}, %u: tensor<5x2x5x2x2xf32>) -> tensor<5x2x7x2xf32> { %y = graph.scatter_add %i, %u {axis = 2 : i64, size = 7 : i64, batch_dims = 1 : i64} : (tensor<5x5x2xi64>, tensor<5x2x5x2x2xf32>) -> tensor<5x2x7x2xf32> return %y : tensor<5x2x7x2xf32> }

func.func @reduce_sum(%x: tensor<5x7x5xf32>) -> tensor<5x5xf32> { %y = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false} : (tensor<5x7x5xf32>) -> tensor<5x5xf32> return %y : tensor<5x5xf32> }
func.func @reduce_sum_all(%x: tensor<5x7xf32>) -> tensor<f32> { %y = graph.reduce_sum %x {dims = array<i64: 0, 1>, keepdims = false} : (tensor<5x7xf32>) -> tensor<f32> return %y : tensor<f32> }
func.func @reduce_max(%x: tensor<5x7x5xf32>) -> tensor<5x1x1xf32> { %y = graph.reduce_max %x {dims = array<i64: 1, 2>, keepdims = true} : (tensor<5x7x5xf32>) -> tensor<5x1x1xf32> return %y : tensor<5x1x1xf32> }
func.func @reduce_max_integer(%x: tensor<5x7xi64>) -> tensor<5xi64> { %y = graph.reduce_max %x {dims = array<i64: 1>, keepdims = false} : (tensor<5x7xi64>) -> tensor<5xi64> return %y : tensor<5xi64> }
func.func @reduce_sum_integer(%x: tensor<5x7xi64>) -> tensor<5xi64> { %y = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false} : (tensor<5x7xi64>) -> tensor<5xi64> return %y : tensor<5xi64> }
func.func @reduce_min(%x: tensor<5x7x5xf32>) -> tensor<7xf32> { %y = graph.reduce_min %x {dims = array<i64: 0, 2>, keepdims = false} : (tensor<5x7x5xf32>) -> tensor<7xf32> return %y : tensor<7xf32> }
func.func @argmax(%x: tensor<5x7x5xf32>) -> tensor<5x1x5xi64> { %y = graph.argmax %x {dim = 1 : i64, keepdims = true} : (tensor<5x7x5xf32>) -> tensor<5x1x5xi64> return %y : tensor<5x1x5xi64> }

func.func @topk(%x: tensor<5x7x5xf32>) -> tensor<5x3x5xi64> { %y = graph.topk %x {dim = 1 : i64, k = 3 : i64, smallest = false} : (tensor<5x7x5xf32>) -> tensor<5x3x5xi64> return %y : tensor<5x3x5xi64> }
func.func @topk_smallest(%x: tensor<5x7xi64>) -> tensor<5x2xi64> { %y = graph.topk %x {dim = 1 : i64, k = 2 : i64, smallest = true} : (tensor<5x7xi64>) -> tensor<5x2xi64> return %y : tensor<5x2xi64> }

func.func @matmul(%a: tensor<5x7xf32>, %b: tensor<7x5xf32>) -> tensor<5x5xf32> { %y = graph.matmul %a, %b : (tensor<5x7xf32>, tensor<7x5xf32>) -> tensor<5x5xf32> return %y : tensor<5x5xf32> }
func.func @matmul_transposed(%a: tensor<7x5xf32>, %b: tensor<5x7xf32>) -> tensor<5x5xf32> { %y = graph.matmul %a, %b {transpose_a = true, transpose_b = true} : (tensor<7x5xf32>, tensor<5x7xf32>) -> tensor<5x5xf32> return %y : tensor<5x5xf32> }
func.func @matmul_batched(%a: tensor<5x1x5x2xf32>, %b: tensor<2x2x5xf32>) -> tensor<5x2x5x5xf32> { %y = graph.matmul %a, %b : (tensor<5x1x5x2xf32>, tensor<2x2x5xf32>) -> tensor<5x2x5x5xf32> return %y : tensor<5x2x5x5xf32> }

func.func @conv(%x: tensor<5x5x8x8xf32>, %w: tensor<5x5x3x3xf32>) -> tensor<5x5x8x8xf32> { %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<5x5x8x8xf32>, tensor<5x5x3x3xf32>) -> tensor<5x5x8x8xf32> return %y : tensor<5x5x8x8xf32> }
func.func @conv_stride(%x: tensor<5x3x16x8xf32>, %w: tensor<5x3x3x3xf32>) -> tensor<5x5x8x4xf32> { %y = graph.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<5x3x16x8xf32>, tensor<5x3x3x3xf32>) -> tensor<5x5x8x4xf32> return %y : tensor<5x5x8x4xf32> }
func.func @conv_groups(%x: tensor<3x8x8x4xf32>, %w: tensor<8x2x1x1xf32>) -> tensor<3x8x8x4xf32> { %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64} : (tensor<3x8x8x4xf32>, tensor<8x2x1x1xf32>) -> tensor<3x8x8x4xf32> return %y : tensor<3x8x8x4xf32> }
func.func @conv_dilated(%x: tensor<3x3x16x12xf32>, %w: tensor<3x3x3x3xf32>) -> tensor<3x3x16x12xf32> { %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 1, 2, 3>, dilations = array<i64: 2, 2>, groups = 1 : i64} : (tensor<3x3x16x12xf32>, tensor<3x3x3x3xf32>) -> tensor<3x3x16x12xf32> return %y : tensor<3x3x16x12xf32> }
func.func @conv_1d(%x: tensor<5x3x16xf32>, %w: tensor<5x3x4xf32>) -> tensor<5x5x4xf32> { %y = graph.conv %x, %w {strides = array<i64: 4>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<5x3x16xf32>, tensor<5x3x4xf32>) -> tensor<5x5x4xf32> return %y : tensor<5x5x4xf32> }
func.func @conv_3d(%x: tensor<3x3x4x4x4xf32>, %w: tensor<3x3x3x1x2xf32>) -> tensor<3x3x4x4x3xf32> { %y = graph.conv %x, %w {strides = array<i64: 1, 1, 1>, pads = array<i64: 1, 0, 0, 1, 0, 0>, dilations = array<i64: 1, 1, 1>, groups = 1 : i64} : (tensor<3x3x4x4x4xf32>, tensor<3x3x3x1x2xf32>) -> tensor<3x3x4x4x3xf32> return %y : tensor<3x3x4x4x3xf32> }

func.func @conv_input_grad(%dy: tensor<5x5x8x8xf32>, %w: tensor<5x5x3x3xf32>) -> tensor<5x5x8x8xf32> { %y = graph.conv_input_grad %dy, %w {input_sizes = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<5x5x8x8xf32>, tensor<5x5x3x3xf32>) -> tensor<5x5x8x8xf32> return %y : tensor<5x5x8x8xf32> }
func.func @conv_input_grad_stride(%dy: tensor<5x5x8x4xf32>, %w: tensor<5x3x3x3xf32>) -> tensor<5x3x16x8xf32> { %y = graph.conv_input_grad %dy, %w {input_sizes = array<i64: 16, 8>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<5x5x8x4xf32>, tensor<5x3x3x3xf32>) -> tensor<5x3x16x8xf32> return %y : tensor<5x3x16x8xf32> }
func.func @conv_input_grad_groups(%dy: tensor<3x8x8x4xf32>, %w: tensor<8x2x1x1xf32>) -> tensor<3x8x8x4xf32> { %y = graph.conv_input_grad %dy, %w {input_sizes = array<i64: 8, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64} : (tensor<3x8x8x4xf32>, tensor<8x2x1x1xf32>) -> tensor<3x8x8x4xf32> return %y : tensor<3x8x8x4xf32> }
func.func @conv_input_grad_point_stride(%dy: tensor<3x5x4x4xf32>, %w: tensor<5x3x1x1xf32>) -> tensor<3x3x8x8xf32> { %y = graph.conv_input_grad %dy, %w {input_sizes = array<i64: 8, 8>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<3x5x4x4xf32>, tensor<5x3x1x1xf32>) -> tensor<3x3x8x8xf32> return %y : tensor<3x3x8x8xf32> }

func.func @conv_weight_grad(%x: tensor<5x5x8x8xf32>, %dy: tensor<5x5x8x8xf32>) -> tensor<5x5x3x3xf32> { %y = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<5x5x8x8xf32>, tensor<5x5x8x8xf32>) -> tensor<5x5x3x3xf32> return %y : tensor<5x5x3x3xf32> }
func.func @conv_weight_grad_stride(%x: tensor<5x3x16x8xf32>, %dy: tensor<5x5x8x4xf32>) -> tensor<5x3x3x3xf32> { %y = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<5x3x16x8xf32>, tensor<5x5x8x4xf32>) -> tensor<5x3x3x3xf32> return %y : tensor<5x3x3x3xf32> }
func.func @conv_weight_grad_groups(%x: tensor<3x8x8x4xf32>, %dy: tensor<3x8x8x4xf32>) -> tensor<8x2x1x1xf32> { %y = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64} : (tensor<3x8x8x4xf32>, tensor<3x8x8x4xf32>) -> tensor<8x2x1x1xf32> return %y : tensor<8x2x1x1xf32> }
func.func @conv_weight_grad_point_stride(%x: tensor<3x3x8x8xf32>, %dy: tensor<3x5x4x4xf32>) -> tensor<5x3x1x1xf32> { %y = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 1, 1>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<3x3x8x8xf32>, tensor<3x5x4x4xf32>) -> tensor<5x3x1x1xf32> return %y : tensor<5x3x1x1xf32> }

func.func @max_pool(%x: tensor<5x3x8x8xf32>) -> tensor<5x3x4x4xf32> { %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<5x3x8x8xf32>) -> tensor<5x3x4x4xf32> return %y : tensor<5x3x4x4xf32> }
func.func @max_pool_plain(%x: tensor<5x5x8x8xf32>) -> tensor<5x5x4x4xf32> { %y = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<5x5x8x8xf32>) -> tensor<5x5x4x4xf32> return %y : tensor<5x5x4x4xf32> }
func.func @max_pool_grad(%x: tensor<5x3x8x8xf32>, %dy: tensor<5x3x4x4xf32>) -> tensor<5x3x8x8xf32> { %y = graph.max_pool_grad %x, %dy {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<5x3x8x8xf32>, tensor<5x3x4x4xf32>) -> tensor<5x3x8x8xf32> return %y : tensor<5x3x8x8xf32> }
func.func @max_pool_grad_plain(%x: tensor<5x5x8x8xf32>, %dy: tensor<5x5x4x4xf32>) -> tensor<5x5x8x8xf32> { %y = graph.max_pool_grad %x, %dy {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<5x5x8x8xf32>, tensor<5x5x4x4xf32>) -> tensor<5x5x8x8xf32> return %y : tensor<5x5x8x8xf32> }
func.func @avg_pool(%x: tensor<5x3x8x8xf32>) -> tensor<5x3x8x8xf32> { %y = graph.avg_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, include_pad = true} : (tensor<5x3x8x8xf32>) -> tensor<5x3x8x8xf32> return %y : tensor<5x3x8x8xf32> }
func.func @avg_pool_exclude(%x: tensor<5x3x8x8xf32>) -> tensor<5x3x8x8xf32> { %y = graph.avg_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, include_pad = false} : (tensor<5x3x8x8xf32>) -> tensor<5x3x8x8xf32> return %y : tensor<5x3x8x8xf32> }
func.func @avg_pool_grad(%dy: tensor<5x3x8x8xf32>) -> tensor<5x3x8x8xf32> { %y = graph.avg_pool_grad %dy {input_sizes = array<i64: 8, 8>, kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, include_pad = true} : (tensor<5x3x8x8xf32>) -> tensor<5x3x8x8xf32> return %y : tensor<5x3x8x8xf32> }
func.func @avg_pool_grad_stride(%dy: tensor<5x3x4x4xf32>) -> tensor<5x3x8x8xf32> { %y = graph.avg_pool_grad %dy {input_sizes = array<i64: 8, 8>, kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, include_pad = false} : (tensor<5x3x4x4xf32>) -> tensor<5x3x8x8xf32> return %y : tensor<5x3x8x8xf32> }

func.func @softmax(%x: tensor<5x7x5xf32>) -> tensor<5x7x5xf32> { %y = graph.softmax %x {dim = 1 : i64} : (tensor<5x7x5xf32>) -> tensor<5x7x5xf32> return %y : tensor<5x7x5xf32> }
func.func @softmax_grad(%dy: tensor<5x7x5xf32>, %y: tensor<5x7x5xf32>) -> tensor<5x7x5xf32> { %dx = graph.softmax_grad %dy, %y {dim = 1 : i64} : (tensor<5x7x5xf32>, tensor<5x7x5xf32>) -> tensor<5x7x5xf32> return %dx : tensor<5x7x5xf32> }
func.func @log_softmax(%x: tensor<5x7xf32>) -> tensor<5x7xf32> { %y = graph.log_softmax %x {dim = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32> return %y : tensor<5x7xf32> }
func.func @log_softmax_grad(%dy: tensor<5x7xf32>, %y: tensor<5x7xf32>) -> tensor<5x7xf32> { %dx = graph.log_softmax_grad %dy, %y {dim = 1 : i64} : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32> return %dx : tensor<5x7xf32> }
