"""GPTQ: int4 weights as GPTQ checkpoints store them, a scale and a zero point for each group along K.

    w[k, n] = scales[k // group_size, n] * (q[k, n] - (z[k // group_size, n] + 1)),   q and z in 0..15
    y[m, n] = sum_k x[m, k] * w[k, n]

The scale changes along K, so it cannot wait for the epilogue as in W4A16: the sum of each group has its own. But it
need not touch every weight either. Within a group the loop multiplies x with the integers q - (z + 1), -16 to 14,
which fp16 holds exactly, and scales the group's sum.

A group of 128 with its scale and its zero point has 4 + 20 / 128 bits a weight: what is read is nearly what W4A16 reads.
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=3),
]
# YOUR CODE HERE


# YOUR CODE HERE


@triton.autotune(configs=CONFIGS, key=["M", "N", "K", "group_size"], reset_to_zero=["y_ptr"])
# YOUR CODE HERE
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr,
    M, N, K, group_size,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_sg, stride_sn,
    stride_zg, stride_zn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
# YOUR CODE HERE
):  # fmt: skip
    """Y = x @ w, w[k, n] = scales[g, n] * (q[k, n] - (z[g, n] + 1)) with g = k // group_size.

    Every tensor begins at a multiple of 16 bytes, and spans fewer than 2^31 elements.
    x fp16 [M, K], element (m, k) at m * stride_xm + k * stride_xk; any strides.
    qweight int32 [K/8, N], word (j, n) at j * stride_wk + n * stride_wn, stride_wn being 1.
    Bits 4*i to 4*i + 3 of word (j, n) are q[8*j + i, n], 0 to 15: unsigned.
    scales fp16 [K/group_size, N], element (g, n) at g * stride_sg + n * stride_sn.
    zeros int32 [K/group_size, N/8], word (g, j) at g * stride_zg + j * stride_zn, stride_zn being 1.
    Bits 4*i to 4*i + 3 of word (g, j) are z[g, 8*j + i], 0 to 15: packed along N, and one less than
    what is subtracted, which is 1 to 16.
    y fp16 [M, N], element (m, n) at m * stride_ym + n * stride_yn, stride_yn being 1; zeros on entry
    when SPLIT_K > 1.
    M is any size, N and K are multiples of 8, group_size is a multiple of 8 that divides K: often
    128, also 32, 64 or K itself. None need be a multiple of the tile, and a tile along K may hold
    several groups or part of one.

    Meta parameters: a program makes the BLOCK_M x BLOCK_N tile of Y that program_id(0) names, in
    steps of BLOCK_K; program_id(1) names one of SPLIT_K slices of K (with SPLIT_K == 1 there is one
    slice, and a plain store will do).

    To do, for each step along K: load a tile of x and of qweight, and the scales and zeros of its
    groups; open the words, subtract, scale, and add the product to an fp32 accumulator. Convert to
    fp16, store. Nothing outside the tensors may be read or written.
    """
    # YOUR CODE HERE
    pass


def GPTQ_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))


def quantise(w: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Asymmetric int4 quantisation along K by rounding: w = scale * (q - zero) to within scale / 2, where max >= 0 >= min.

    For each group of a column scale = (max - min) / 15 in fp16, and zero is the whole number from 1 to 16 that is nearest
    to -min / scale. (GPTQ itself rounds column by column and makes up for each error in the columns that follow; the
    format is the same.)

    w: floating-point [K, N]. Returns q int8 [K, N] in 0..15, zeros int8 [K / group_size, N] in 1..16, scales fp16 of
    the same shape. Raises ValueError when a value is infinite or NaN, or too large for an fp16 scale.
    """
    if not torch.isfinite(w).all():
        raise ValueError(
            "quantise: found an infinite or NaN value, expected finite ones; clean the weight first"
        )
    grouped = w.float().view(-1, group_size, w.shape[1])
    low, high = grouped.amin(dim=1).clamp(max=0), grouped.amax(dim=1).clamp(min=0)
    scales = ((high - low) / 15).clamp(min=2.0**-24).to(torch.float16)
    if torch.isinf(scales).any():
        raise ValueError(
            f"quantise: found a weight of size {w.abs().max().item():.3g}, expected a range of at most 15 * 65504 in a "
            "group so that its scale fits fp16; rescale the layer"
        )
    zeros = torch.round(-low / scales.float()).clamp(1, 16)
    q = torch.round(grouped / scales.float()[:, None]) + zeros[:, None]
    return q.clamp(0, 15).view(w.shape).to(torch.int8), zeros.to(torch.int8), scales


def pack_rows(q: torch.Tensor) -> torch.Tensor:
    """Packs eight values along the first axis into each word. Integer [R, C] with values in 0..15 -> int32 [R/8, C].

    Raises TypeError for a dtype that is not an integer one, ValueError for another shape or range.
    """
    if q.is_floating_point() or q.is_complex() or q.dtype == torch.bool:
        raise TypeError(f"pack_rows: found {q.dtype}, expected an integer dtype; round and convert first")
    if q.dim() != 2 or q.shape[0] % 8:
        raise ValueError(
            f"pack_rows: found shape {tuple(q.shape)}, expected [R, C] with R a multiple of 8; pad it"
        )
    if q.numel() and (q.min() < 0 or q.max() > 15):
        raise ValueError(
            f"pack_rows: found values from {q.min().item()} to {q.max().item()}, expected 0 to 15; clamp them first"
        )
    nibbles = q.to(torch.int32).view(q.shape[0] // 8, 8, q.shape[1])
    packed = torch.zeros_like(nibbles[:, 0])
    for i in range(8):
        packed |= nibbles[:, i] << (4 * i)
    return packed


def unpack_rows(packed: torch.Tensor) -> torch.Tensor:
    """The inverse of pack_rows. int32 [R/8, C] -> int8 [R, C]. Raises TypeError for another dtype."""
    if packed.dtype != torch.int32:
        raise TypeError(
            f"unpack_rows: found {packed.dtype}, expected torch.int32; pass what pack_rows returned"
        )
    nibbles = [(packed >> (4 * i)) & 0xF for i in range(8)]
    return torch.stack(nibbles, dim=1).view(-1, packed.shape[1]).to(torch.int8)


def pack_zeros(zeros: torch.Tensor) -> torch.Tensor:
    """Packs zero points minus one, eight columns to a word. Integer [G, N] with values in 1..16 -> int32 [G, N/8].

    Raises as `pack_rows` does.
    """
    return pack_rows((zeros - 1).t()).t().contiguous()


def unpack_zeros(packed: torch.Tensor) -> torch.Tensor:
    """The inverse of pack_zeros. int32 [G, N/8] -> int8 [G, N], 1 to 16. Raises TypeError for another dtype."""
    return unpack_rows(packed.t()).t() + 1


def dequantise(qweight: torch.Tensor, scales: torch.Tensor, qzeros: torch.Tensor) -> torch.Tensor:
    """The weight, exact: fp64 [K, N]. Shapes as for `naive`."""
    q = unpack_rows(qweight).double()
    group_size = q.shape[0] // scales.shape[0]
    zeros, scale = (
        rows.double().repeat_interleave(group_size, dim=0) for rows in (unpack_zeros(qzeros), scales)
    )
    return (q - zeros) * scale


def naive(x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, qzeros: torch.Tensor) -> torch.Tensor:
    """What GPTQ_MM computes, in plain PyTorch and fp64.

    x fp16 [M, K]; qweight int32 [K/8, N]; scales fp16 [G, N]; qzeros int32 [G, N/8], where G is the number of groups.
    Returns fp16 [M, N].
    """
    return (x.double() @ dequantise(qweight, scales, qzeros)).to(torch.float16)


SYMMETRIC_V2 = 0x88888888 - (1 << 32)
"""A word of eight zero points of 8, as int32; stored minus one it would be 0x77777777."""


class GPTQLinear(torch.nn.Module):
    """y = x W^T + bias with W as a GPTQ checkpoint stores it; for inference only.

    Buffers: qweight int32 [in_features / 8, out_features], qzeros int32 [G, out_features / 8], scales fp16
    [G, out_features] with G = in_features / group_size, bias fp16 [out_features] or None: the names and shapes of
    checkpoints in 4 bits, so that `load_state_dict` takes a layer of one. A g_idx among them must be k // group_size:
    act-order is not supported. in_features, out_features and group_size must be multiples of 8; a group_size of -1
    means in_features. The zeros are stored minus one, as in the format `gptq`; `gptq_v2` stores them as they are and
    has the same names and shapes, so `checkpoint_format` of quantize_config.json is worth passing on.
    """

    qweight: torch.Tensor
    qzeros: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: torch.device | None = None,
        group_size: int = 128,
        checkpoint_format: str = "gptq",
    ) -> None:
        super().__init__()
        if checkpoint_format != "gptq":
            raise ValueError(
                f"GPTQLinear: found checkpoint_format={checkpoint_format!r}, expected 'gptq', whose zeros are stored "
                "minus one; of 'gptq_v2' subtract 0x11111111 from qzeros first, and pass 'gptq'"
            )
        if in_features % 8 or out_features % 8 or in_features < 8 or out_features < 8:
            raise ValueError(
                f"GPTQLinear: found in_features={in_features} and out_features={out_features}, "
                "expected positive multiples of 8; pad the Linear layer"
            )
        group_size = in_features if group_size == -1 else group_size
        if group_size < 8 or group_size % 8 or in_features % group_size:
            raise ValueError(
                f"GPTQLinear: found group_size={group_size}, expected a multiple of 8 that divides "
                f"in_features={in_features}; pass the checkpoint's, or -1 for one group"
            )
        self.in_features, self.out_features, self.group_size = in_features, out_features, group_size
        groups = in_features // group_size
        self.register_buffer(
            "qweight", torch.zeros((in_features // 8, out_features), dtype=torch.int32, device=device)
        )
        self.register_buffer("qzeros", torch.zeros((groups, out_features // 8), dtype=torch.int32, device=device))
        self.register_buffer("scales", torch.ones((groups, out_features), dtype=torch.float16, device=device))
        zeros = torch.zeros(out_features, dtype=torch.float16, device=device)
        self.register_buffer("bias", zeros if bias else None)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, group_size: int = -1) -> "GPTQLinear":
        """Quantises the weight of a Linear layer by rounding, see `quantise`.

        Raises TypeError for any other kind of module; ValueError for a bad shape or a weight that is not finite.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(
                f"from_linear: found {type(linear).__name__}, expected torch.nn.Linear; pass such a layer"
            )
        has_bias = linear.bias is not None
        layer = cls(linear.in_features, linear.out_features, has_bias, linear.weight.device, group_size)
        q, zeros, layer.scales = quantise(linear.weight.detach().t(), layer.group_size)
        layer.qweight, layer.qzeros = pack_rows(q), pack_zeros(zeros)
        if has_bias:
            layer.bias = linear.bias.detach().to(torch.float16)
        return layer

    def _load_from_state_dict(self, state_dict, prefix, *rest) -> None:  # type: ignore[no-untyped-def]
        g_idx = state_dict.pop(prefix + "g_idx", None)
        if g_idx is not None:
            plain = torch.arange(self.in_features, device=g_idx.device) // self.group_size
            if g_idx.shape != plain.shape or (g_idx != plain).any():
                raise ValueError(
                    f"load_state_dict: found {prefix}g_idx in another order than k // {self.group_size}, expected that "
                    "order; quantise the checkpoint without act-order (desc_act=False), or pass its own group_size"
                )
        qzeros = state_dict.get(prefix + "qzeros")
        if qzeros is not None and qzeros.numel() and (qzeros == SYMMETRIC_V2).all():
            raise ValueError(
                f"load_state_dict: found 8 for every zero in {prefix}qzeros, as symmetric checkpoints in the format gptq_v2 "
                "have, expected them stored minus one; subtract 0x11111111 from qzeros first"
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

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
            launch(rows, self.qweight, self.scales, self.qzeros, y)
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


def launch(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, qzeros: torch.Tensor, y: torch.Tensor
) -> None:
    """Runs GPTQ_MM into y, whatever y holds. Shapes as for `naive`. x and scales may have any strides;
    the others any row stride, but contiguous columns.

    Raises ValueError for CPU tensors, unless the kernel is interpreted (TRITON_INTERPRET=1).
    """
    (M, K), N = x.shape, y.shape[1]
    strides = (*x.stride(), *qweight.stride(), *scales.stride(), *qzeros.stride(), *y.stride())
    arguments = (x, qweight, scales, qzeros, y, M, N, K, K // scales.shape[0], *strides)

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        if meta.get("SPLIT_K", 1) > 1:  # its slices are added to y
            y.zero_()
        return GPTQ_MM_grid(M, N, K, meta)

    kernel = GPTQ_MM.fn
    jit_function = kernel.fn if isinstance(kernel, triton.runtime.Heuristics) else kernel
    if not isinstance(jit_function, triton.JITFunction):  # interpreted: autotuning would need a GPU to time
        meta = CONFIGS[0].kwargs
        kernel[grid(meta)](*arguments, **meta)
    elif x.device.type == "cpu":
        raise ValueError(
            "forward: found x on cpu and a kernel compiled for a GPU, expected a CUDA tensor; "
            "move the layer and x with .cuda(), or set TRITON_INTERPRET=1 before Python starts"
        )
    else:
        GPTQ_MM[grid](*arguments)
