"""Small networks of other families than those of networks.py, without weights: a U-Net, a ViT, DLRM, an LSTM, and an encoder with a decoder.

    small_networks.unet("unet.onnx", batch=8)       # file, and sizes by name

The model's inputs are `image`; `dense` and `ids` of DLRM; `ids` of the LSTM; `source` and `shifted` of the translator. Everything else is a parameter.
"""
from onnx import TensorProto, helper

from networks import Network


class Images(Network):
    """Also writes what networks on images have."""

    def convolution(self, x, name, channels, outputs, kernel, pad=None, stride=1):
        pad = kernel // 2 if pad is None else pad
        return self.node("Conv", x, self.input(name + ".w", [outputs, channels, kernel, kernel]), self.input(name + ".b", [outputs]),
                         name=name, kernel_shape=[kernel, kernel], pads=[pad] * 4, strides=[stride] * 2)

    def batch_normalised(self, x, name, channels):
        inputs = [x, *(self.input(f"{name}.{part}", [channels]) for part in ("weight", "bias", "mean", "var"))]
        outputs = [f"{name}:{result}" for result in ("y", "mean", "var")]
        self.nodes.append(helper.make_node("BatchNormalization", inputs, outputs, name=name, training_mode=1))
        return outputs[0]

    def twice(self, x, name, channels, outputs):
        for part in ("a", "b"):
            x = self.batch_normalised(self.convolution(x, f"{name}.{part}", channels, outputs, 3), f"{name}.{part}.n", outputs)
            x, channels = self.node("Relu", x), outputs
        return x


def unet(path, batch=8, size=32, channels=32, classes=5):
    """U-Net (Ronneberger et al., 2015) with two levels: one goes up by a transposed convolution, the other by interpolation."""
    net, c = Images(), channels
    x = net.input("image", [batch, 3, size, size])
    first = net.twice(x, "down1", 3, c)
    half = dict(kernel_shape=[2, 2], strides=[2, 2])
    second = net.twice(net.node("MaxPool", first, **half), "down2", c, 2 * c)
    x = net.twice(net.node("MaxPool", second, **half), "bottom", 2 * c, 2 * c)
    weight, bias = net.input("up2.w", [2 * c, 2 * c, 2, 2]), net.input("up2.b", [2 * c])
    x = net.node("ConvTranspose", x, weight, bias, name="up2", **half)
    x = net.twice(net.node("Concat", x, second, axis=1), "up2", 4 * c, c)
    x = net.node("Resize", x, "", net.constant([1, 1, 2, 2], "float32"), mode="linear", name="up1")
    x = net.twice(net.node("Concat", x, first, axis=1), "up1", 2 * c, c)
    net.write(path, net.convolution(x, "classes", c, classes, 1), [batch, classes, size, size])


def vit(path, batch=8, size=32, patch=8, hidden=64, heads=4, layers=2, classes=16):
    """A vision transformer (Dosovitskiy et al., 2021) with a token for the class, so that no mesh divides the positions."""
    net, length = Images(), (size // patch) ** 2
    x = net.convolution(net.input("image", [batch, 3, size, size]), "patches", 3, hidden, patch, 0, patch)
    x = net.node("Transpose", net.node("Reshape", x, net.constant([batch, hidden, length])), perm=[0, 2, 1])
    token = net.node("Expand", net.input("token", [1, 1, hidden]), net.constant([batch, 1, hidden]))
    x = net.node("Add", net.node("Concat", token, x, axis=1), net.input("positions", [length + 1, hidden]))
    for i in range(layers):
        y = net.normalised(x, f"l{i}.n1", hidden)
        x = net.node("Add", x, net.attention(y, f"l{i}", batch, length + 1, hidden, heads))
        y = net.gelu(net.linear(net.normalised(x, f"l{i}.n2", hidden), f"l{i}.up", hidden, 4 * hidden))
        x = net.node("Add", x, net.linear(y, f"l{i}.down", 4 * hidden, hidden))
    x = net.node("Gather", net.normalised(x, "last", hidden), net.constant(0), axis=1)
    net.write(path, net.dense(x, "logits", hidden, classes), [batch, classes])


def dlrm(path, batch=16, features=13, tables=4, rows=64, width=16):
    """DLRM (Naumov et al., 2019): tables of embeddings, products of all pairs, dense layers before and after."""
    net = Network()
    x = net.node("Relu", net.dense(net.input("dense", [batch, features]), "bottom1", features, 32))
    x = net.node("Relu", net.dense(x, "bottom2", 32, width))
    columns = net.parts(net.input("ids", [batch, tables], TensorProto.INT64), 1, [1] * tables)
    rows = [net.node("Gather", net.input(f"table{i}", [rows, width]), ids, name=f"table{i}.rows") for i, ids in enumerate(columns)]
    every = net.node("Concat", net.node("Reshape", x, net.constant([batch, 1, width])), *rows, axis=1)
    pairs = net.node("MatMul", every, net.node("Transpose", every, perm=[0, 2, 1]), name="pairs")
    inner = (tables + 1) ** 2
    x = net.node("Concat", x, net.node("Reshape", pairs, net.constant([batch, inner])), axis=1)
    x = net.node("Relu", net.dense(x, "top1", width + inner, 32))
    net.write(path, net.dense(x, "top2", 32, 1), [batch, 1])


def lstm(path, batch=8, length=6, words=64, hidden=32):
    """Predicts the next word by one LSTM (Hochreiter and Schmidhuber, 1997)."""
    net = Network()
    ids = net.input("ids", [batch, length], TensorProto.INT64)
    x = net.node("Transpose", net.node("Gather", net.input("words", [words, hidden]), ids), perm=[1, 0, 2])
    shapes = {"w": [1, 4 * hidden, hidden], "r": [1, 4 * hidden, hidden], "b": [1, 8 * hidden]}
    x = net.node("LSTM", x, *(net.input(f"lstm.{part}", shape) for part, shape in shapes.items()), name="lstm", hidden_size=hidden)
    x = net.node("Transpose", net.node("Squeeze", x, net.constant([1])), perm=[1, 0, 2])
    net.write(path, net.matrix(x, "logits", hidden, words), [batch, length, words])


def translator(path, batch=8, length=8, words=64, hidden=32, heads=4, layers=2):
    """An encoder and a decoder, each of whose layers reads what the encoder made (Vaswani et al., 2017); all share one table."""
    net, head = Network(), hidden // heads
    source, shifted = (net.input(name, [batch, length], TensorProto.INT64) for name in ("source", "shifted"))
    table, mask = net.input("words", [words, hidden]), net.causal(length)

    def added(x, y, name, rows=hidden):
        return net.node("Add", x, net.linear(y, name, rows, hidden))

    def widened(x, name):
        y = net.gelu(net.linear(net.normalised(x, name + ".n", hidden), name + ".up", hidden, 2 * hidden))
        return added(x, y, name + ".down", 2 * hidden)

    x = net.node("Gather", table, source)
    for i in range(layers):
        y = net.attention(net.normalised(x, f"e{i}.n1", hidden), f"e{i}.self", batch, length, hidden, heads)
        x = widened(net.node("Add", x, y), f"e{i}")
    encoded, x = net.normalised(x, "encoded", hidden), net.node("Gather", table, shifted)
    for i in range(layers):
        y = net.attention(net.normalised(x, f"d{i}.n1", hidden), f"d{i}.self", batch, length, hidden, heads, mask)
        x = net.node("Add", x, y)
        queries = net.linear(net.normalised(x, f"d{i}.n2", hidden), f"d{i}.q", hidden, hidden)
        keys = net.heads_of(net.linear(encoded, f"d{i}.kv", hidden, 2 * hidden), batch, length, heads, 2 * head)
        y = net.mixed(net.heads_of(queries, batch, length, heads, head), *net.parts(keys, 3, [head] * 2), f"d{i}.cross", batch, length,
                      hidden, head ** -0.5)
        x = widened(added(x, y, f"d{i}.cross.out"), f"d{i}")
    y = net.node("MatMul", net.normalised(x, "decoded", hidden), net.node("Transpose", table, perm=[1, 0]), name="logits")
    net.write(path, y, [batch, length, words])
