"""W4A16: int4 weights, eight to a word, with fp16 activations.

    w[n, k] = scales[n] * q[n, k],   q in -8..7
    y[m, n] = scales[n] * sum_k x[m, k] * q[n, k]

The scale is constant along K (per-channel), so it leaves the sum: the loop multiplies x with bare integers,
which fp16 holds exactly, and the fp32 accumulator is scaled once, in the epilogue.

With few tokens (small M) the time goes into reading the weight, a quarter of its fp16 size. There is no
int4 x fp16 matrix instruction, so the other cost to keep small is that of making fp16 from nibbles: every
program that shares a column of the weight does it again.
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=3),
]
# YOUR CODE HERE


# YOUR CODE HERE


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """Y = x @ (q * scales[None, :]), q [K, N] being the int4 matrix that qweight packs along K.

    Every tensor begins at a multiple of 16 bytes, and spans fewer than 2^31 elements.
    x fp16 [M, K], element (m, k) at m * stride_xm + k * stride_xk; any strides.
    qweight int32 [K/8, N], word (j, n) at j * stride_wk + n * stride_wn, stride_wn being 1.
    Bits 4*i to 4*i + 3 of word (j, n) are q[8*j + i, n] in two's complement, so -8 to 7: a plain
    `& 0xF` would read 0 to 15.
    scales fp16 [N].
    y fp16 [M, N], element (m, n) at m * stride_ym + n * stride_yn, stride_yn being 1; zeros on entry
    when SPLIT_K > 1.
    M is any size, N and K are multiples of 8; none need be a multiple of the tile.

    Meta parameters: a program makes the BLOCK_M x BLOCK_N tile of Y that program_id(0) names, in
    steps of BLOCK_K; program_id(1) names one of SPLIT_K slices of K (with SPLIT_K == 1 there is one
    slice, and a plain store will do).

    To do, for each step along K: load a tile of x and of qweight, open the words into signed
    integers, turn these to fp16, add the product to an fp32 accumulator. Apply the scales once,
    convert to fp16, store. Nothing outside the tensors may be read or written.
    """
    # YOUR CODE HERE
    pass


def W4A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))


def quantise(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric int4 quantisation, one scale per row: row = q * scale, to within scale / 2 per element.

    scale = max|row| / 7 in fp16, and 1 for a row of zeros. Where fp16 runs out of bits (max|row| below about
    3e-6) that may round so far down that 7 * scale misses the largest element; the scale is then the next
    fp16 number.

    rows: floating-point [R, K]. Returns q int8 [R, K] in -8..7 and scale fp16 [R].
    Raises ValueError when a value is infinite or NaN, or too large for an fp16 scale.
    """
    if not torch.isfinite(rows).all():
        raise ValueError(
            "quantise: found an infinite or NaN value, expected finite ones; clean the weight first"
        )
    peak = rows.abs().amax(dim=1).float()
    scale = (peak / 7).to(torch.float16)
    if torch.isinf(scale).any():
        raise ValueError(
            f"quantise: found a weight of size {peak.max().item():.3g}, expected at most 7 * 65504 so that "
            "its scale fits fp16; rescale the layer"
        )
    scale = torch.where(scale.float() * 7.5 < peak, scale + 2.0**-24, scale)
    scale = torch.where(peak > 0, scale, torch.ones_like(scale))
    q = torch.round(rows.float() / scale.float()[:, None]).clamp(-8, 7)
    return q.to(torch.int8), scale


def pack_int4(q: torch.Tensor) -> torch.Tensor:
    """Packs eight values along K into each word. Integer [K, N] with values in -8..7 -> int32 [K/8, N].

    Raises TypeError for a dtype that is not an integer one, ValueError for another shape or range.
    """
    if q.is_floating_point() or q.is_complex() or q.dtype == torch.bool:
        raise TypeError(f"pack_int4: found {q.dtype}, expected an integer dtype; round and convert first")
    if q.dim() != 2 or q.shape[0] % 8:
        raise ValueError(
            f"pack_int4: found shape {tuple(q.shape)}, expected [K, N] with K a multiple of 8; "
            "pad K with zeros"
        )
    if q.numel() and (q.min() < -8 or q.max() > 7):
        raise ValueError(
            f"pack_int4: found values from {q.min().item()} to {q.max().item()}, expected -8 to 7; "
            "clamp them first"
        )
    nibbles = (q.to(torch.int32) & 0xF).view(q.shape[0] // 8, 8, q.shape[1])
    packed = torch.zeros_like(nibbles[:, 0])
    for i in range(8):
        packed |= nibbles[:, i] << (4 * i)
    return packed


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """The inverse of pack_int4. int32 [K/8, N] -> int8 [K, N]. Raises TypeError for another dtype."""
    if packed.dtype != torch.int32:
        raise TypeError(
            f"unpack_int4: found {packed.dtype}, expected torch.int32; pass what pack_int4 returned"
        )
    # Shift left until the nibble's sign bit is the word's, then right: the arithmetic shift copies it.
    nibbles = [(packed << (28 - 4 * i)) >> 28 for i in range(8)]
    return torch.stack(nibbles, dim=1).view(-1, packed.shape[1]).to(torch.int8)


def naive(x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What W4A16_MM computes, in plain PyTorch and fp64.

    x fp16 [M, K]; qweight int32 [K/8, N]; scales fp16 [N]. Returns fp16 [M, N].
    """
    return ((x.double() @ unpack_int4(qweight).double()) * scales.double()[None, :]).to(torch.float16)


class QuantLinear_w4a16(torch.nn.Module):
    """y = x W^T + bias with W in int4; for inference only.

    Buffers: qweight int32 [in_features / 8, out_features], scales fp16 [out_features], bias fp16
    [out_features] or None. in_features and out_features must be multiples of 8.
    """

    qweight: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = False, device: torch.device | None = None
    ) -> None:
        super().__init__()
        if in_features % 8 or out_features % 8 or in_features < 8 or out_features < 8:
            raise ValueError(
                f"QuantLinear_w4a16: found in_features={in_features} and out_features={out_features}, "
                "expected positive multiples of 8; pad the Linear layer"
            )
        self.in_features, self.out_features = in_features, out_features
        shape = (in_features // 8, out_features)
        self.register_buffer("qweight", torch.zeros(shape, dtype=torch.int32, device=device))
        self.register_buffer("scales", torch.ones(out_features, dtype=torch.float16, device=device))
        zeros = torch.zeros(out_features, dtype=torch.float16, device=device)
        self.register_buffer("bias", zeros if bias else None)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear) -> "QuantLinear_w4a16":
        """Quantises the weight of a Linear layer.

        Raises TypeError for any other kind of module; ValueError for a bad shape or a weight that is not finite.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(
                f"from_linear: found {type(linear).__name__}, expected torch.nn.Linear; pass such a layer"
            )
        has_bias = linear.bias is not None
        layer = cls(linear.in_features, linear.out_features, has_bias, linear.weight.device)
        q, layer.scales = quantise(linear.weight.detach())
        layer.qweight = pack_int4(q.t().contiguous())
        if has_bias:
            layer.bias = linear.bias.detach().to(torch.float16)
        return layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x fp16 [..., in_features] -> fp16 [..., out_features], on the device of the layer.

        Raises TypeError for another dtype; ValueError for another shape or device, or for a CPU tensor when
        the kernel is compiled for a GPU.
        """
        self._check(x)
        rows = x.reshape(-1, self.in_features)
        # the kernel is promised a multiple of 16 bytes
        if not torch.compiler.is_compiling() and rows.storage_offset() % 8:
            rows = rows.clone()
        y = torch.empty(rows.shape[0], self.out_features, dtype=torch.float16, device=x.device)
        if rows.shape[0]:
            launch(rows, self.qweight, self.scales, y)
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def _check(self, x: torch.Tensor) -> None:
        if x.dtype != torch.float16:
            raise TypeError(f"forward: found x in {x.dtype}, expected torch.float16; call x.half()")
        if self.scales.dtype != torch.float16:
            raise TypeError(
                f"forward: found scales in {self.scales.dtype}, expected torch.float16; "
                "call .half() on the layer"
            )
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(
                f"forward: found x of shape {tuple(x.shape)}, expected (..., {self.in_features}); "
                "check which layer x belongs to"
            )
        if x.device != self.qweight.device:
            raise ValueError(
                f"forward: found x on {x.device}, expected {self.qweight.device} where the weight is; "
                "move one of them"
            )


def launch(x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, y: torch.Tensor) -> None:
    """Runs W4A16_MM into y, whatever y holds. Shapes as for `naive`. x may have any strides; y any row stride, but
    contiguous columns.

    Raises ValueError for CPU tensors, unless the kernel is interpreted (TRITON_INTERPRET=1).
    """
    (M, K), N = x.shape, y.shape[1]
    arguments = (x, qweight, scales, y, M, N, K, *x.stride(), *qweight.stride(), *y.stride())

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        if meta.get("SPLIT_K", 1) > 1:  # its slices are added to y
            y.zero_()
        return W4A16_MM_grid(M, N, K, meta)

    if not isinstance(W4A16_MM.fn, triton.JITFunction):  # interpreted: autotuning would need a GPU to time
        meta = CONFIGS[0].kwargs
        W4A16_MM.fn[grid(meta)](*arguments, **meta)
    elif x.device.type == "cpu":
        raise ValueError(
            "forward: found x on cpu and a kernel compiled for a GPU, expected a CUDA tensor; "
            "move the layer and x with .cuda(), or set TRITON_INTERPRET=1 before Python starts"
        )
    else:
        W4A16_MM[grid](*arguments)
