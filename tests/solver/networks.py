"""Training graphs in the shape of well-known networks, built from layer sizes by a small autodiff."""

from __future__ import annotations

from dataclasses import dataclass, field

from rematopt.graph import Data, Graph, Kind, Op, Phase, Recompute, StaticBytes

FLOPS_PER_SECOND = 15e12
BYTES_PER_SECOND = 600e9
LAUNCH_SECONDS = 4e-6


@dataclass
class Network:
    """Records forward ops; :meth:`graph` appends their backward ops in reverse order."""

    ops: list[Op] = field(default_factory=list)
    data: list[Data] = field(default_factory=list)
    _tape: list[tuple[int, tuple[int, ...], tuple[int, ...], int, float]] = field(default_factory=list)

    def op(
        self,
        name: str,
        inputs: tuple[int, ...],
        bytes: int | tuple[int, ...],
        *,
        saves: tuple[int, ...] = (),
        saves_outputs: tuple[int, ...] = (),
        flops: float = 0.0,
        workspace: int = 0,
        parameter: int = 0,
        random: bool = False,
        phase: Phase = Phase.FORWARD,
        kinds: tuple[Kind, ...] = (),
        recompute: Recompute = Recompute.FREE,
    ) -> int:
        """Append an op; its backward op will read ``saves`` and its outputs number ``saves_outputs``."""
        sizes = bytes if isinstance(bytes, tuple) else (bytes,)
        if random:
            state = self.op(f"{name}_state", (), 16, recompute=Recompute.NEVER, kinds=(Kind.RANDOM_STATE,))
            inputs = (*inputs, state)
            recompute = Recompute.RANDOM
        first = len(self.data)
        outputs = tuple(range(first, first + len(sizes)))
        moved = sum(sizes) + sum(self.data[d].bytes for d in set(inputs))
        seconds = LAUNCH_SECONDS + max(flops / FLOPS_PER_SECOND, moved / BYTES_PER_SECOND) if moved > 16 else 0.0
        for k, size in enumerate(sizes):
            kind = kinds[k] if k < len(kinds) else (Kind.ACTIVATION if phase is Phase.FORWARD else Kind.TEMPORARY)
            self.data.append(Data(bytes=size, producer=len(self.ops), kind=kind))
        if phase is Phase.FORWARD and not (kinds and kinds[0] is Kind.RANDOM_STATE):
            saved = (*saves, *(outputs[k] for k in saves_outputs))
            self._tape.append((len(self.ops), inputs, saved, parameter, flops))
        self.ops.append(
            Op(
                name=f"{name}_{len(self.ops)}",
                target=name,
                phase=phase,
                inputs=tuple(sorted(set(inputs))),
                outputs=outputs,
                seconds=seconds,
                workspace_bytes=workspace,
                recompute=recompute,
            )
        )
        return first

    def graph(self, loss: int, parameters: int = 0) -> Graph:
        """The training graph whose forward output is ``loss``."""
        self.data[loss] = Data(bytes=self.data[loss].bytes, producer=self.data[loss].producer, kind=Kind.OUTPUT)
        gradient: dict[int, int] = {}
        back = Phase.BACKWARD
        for i, inputs, saved, parameter, flops in reversed(self._tape):
            op = self.ops[i]
            arriving = tuple(gradient[d] for d in op.outputs if d in gradient)
            targets = [d for d in dict.fromkeys(inputs) if self.data[d].kind is not Kind.RANDOM_STATE]
            if not arriving and loss not in op.outputs:
                continue
            sizes = tuple(self.data[d].bytes for d in targets) + ((parameter,) if parameter else ())
            kinds = (*(Kind.TEMPORARY for _ in targets), *((Kind.GRADIENT,) if parameter else ()))
            if not sizes:
                continue
            made = self.op(
                f"{op.target}_backward", (*arriving, *saved), sizes, flops=2 * flops, phase=back, kinds=kinds,
                workspace=op.workspace_bytes,
            )  # fmt: skip
            for k, d in enumerate(targets):
                if d in gradient:
                    gradient[d] = self.op("add", (gradient[d], made + k), self.data[d].bytes, phase=back)
                else:
                    gradient[d] = made + k
        return Graph(ops=tuple(self.ops), data=tuple(self.data), static=StaticBytes(parameters=parameters))


def transformer(
    layers: int, *, batch: int = 4, tokens: int = 512, width: int = 768, heads: int = 12, dropout: bool = True
) -> Graph:
    """A decoder with unfused attention and a GELU of pointwise ops; about 26 forward ops a layer."""
    net = Network()
    rows = batch * tokens
    small, wide = 4 * rows * width, 16 * rows * width
    square = 4 * batch * heads * tokens * tokens
    x = net.op("embedding", (), small, parameter=4 * 50000 * width)
    for _ in range(layers):
        x = _attention(net, x, rows, width, square, tokens, dropout)
        normed = _layer_norm(net, x, small, rows, width)
        hidden = net.op("mm", (normed,), wide, saves=(normed,), flops=8.0 * rows * width**2, parameter=16 * width**2)
        hidden = _gelu(net, hidden, wide)
        out = net.op("mm", (hidden,), small, saves=(hidden,), flops=8.0 * rows * width**2, parameter=16 * width**2)
        x = net.op("add", (x, _dropout(net, out, small) if dropout else out), small)
    normed = _layer_norm(net, x, small, rows, width)
    logits = net.op("mm", (normed,), 4 * rows * 8192, saves=(normed,), flops=2.0 * rows * width * 8192)
    logs = net.op("log_softmax", (logits,), 4 * rows * 8192, saves_outputs=(0,))
    loss = net.op("nll_loss", (logs,), 512)
    return net.graph(loss, parameters=48 * layers * width**2)


def _layer_norm(net: Network, x: int, size: int, rows: int, width: int) -> int:
    sizes = (size, 4 * rows, 4 * rows)
    return net.op("layer_norm", (x,), sizes, saves=(x,), saves_outputs=(1, 2), parameter=8 * width)


def _dropout(net: Network, x: int, size: int) -> int:
    return net.op("native_dropout", (x,), (size, size // 4), saves_outputs=(1,), random=True)


def _attention(net: Network, x: int, rows: int, width: int, square: int, tokens: int, dropout: bool) -> int:
    small = 4 * rows * width
    normed = _layer_norm(net, x, small, rows, width)
    qkv = net.op("mm", (normed,), 3 * small, saves=(normed,), flops=6.0 * rows * width**2, parameter=12 * width**2)
    q, k, v = (net.op("clone", (qkv,), small) for _ in range(3))
    flops = 2.0 * rows * tokens * width
    scores = net.op("bmm", (q, k), square, saves=(q, k), flops=flops)
    scores = net.op("where", (scores,), square)
    weights = net.op("softmax", (scores,), square, saves_outputs=(0,))
    weights = _dropout(net, weights, square) if dropout else weights
    mixed = net.op("bmm", (weights, v), small, saves=(weights, v), flops=flops)
    merged = net.op("clone", (mixed,), small)
    out = net.op("mm", (merged,), small, saves=(merged,), flops=2.0 * rows * width**2, parameter=4 * width**2)
    return net.op("add", (x, _dropout(net, out, small) if dropout else out), small)


def _gelu(net: Network, x: int, size: int) -> int:
    cube = net.op("pow", (x,), size, saves=(x,))
    scaled = net.op("mul", (cube,), size)
    inner = net.op("add", (x, scaled), size)
    inner = net.op("mul", (inner,), size)
    tanh = net.op("tanh", (inner,), size, saves_outputs=(0,))
    shifted = net.op("add", (tanh,), size)
    half = net.op("mul", (x,), size)
    return net.op("mul", (half, shifted), size, saves=(half, shifted))


def resnet(blocks: tuple[int, ...] = (3, 4, 6, 3), *, batch: int = 32, image: int = 224) -> Graph:
    """Bottleneck blocks with batch norm; the default is ResNet-50 with about 175 forward ops."""
    net = Network()
    side, width = image // 4, 64
    x = net.op("pool", (_conv(net, (), 3, 64, image // 2, 49, batch),), 4 * batch * 64 * side**2)
    channels = 64
    for stage, count in enumerate(blocks):
        for k in range(count):
            if k == 0 and stage:
                side, width = side // 2, width * 2
            inner = _conv(net, (x,), channels, width, side, 1, batch)
            inner = _conv(net, (inner,), width, width, side, 9, batch)
            inner = _conv(net, (inner,), width, 4 * width, side, 1, batch, relu=False)
            skip = x if k else _conv(net, (x,), channels, 4 * width, side, 1, batch, relu=False)
            channels, size = 4 * width, 16 * batch * width * side**2
            x = net.op("relu", (net.op("add", (inner, skip), size),), size, saves_outputs=(0,))
    pooled = net.op("mean", (x,), 4 * batch * channels)
    logits = net.op("mm", (pooled,), 4000 * batch, saves=(pooled,), parameter=4000 * channels)
    return net.graph(net.op("loss", (logits,), 512), parameters=100_000_000)


def _conv(
    net: Network, x: tuple[int, ...], inside: int, outside: int, side: int, taps: int, batch: int, relu: bool = True
) -> int:
    size = 4 * batch * outside * side**2
    flops = 2.0 * batch * side**2 * inside * outside * taps
    weights = 4 * inside * outside * taps
    out = net.op("conv", x, size, saves=x, flops=flops, workspace=size // 8, parameter=weights)
    out = net.op("batch_norm", (out,), (size, 8 * outside), saves=(out,), saves_outputs=(1,), parameter=8 * outside)
    return net.op("relu", (out,), size, saves_outputs=(0,)) if relu else out
