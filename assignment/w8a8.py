"""W8A8: int8 weights, and activations that become int8 inside the kernel.

    q_x[m, k] = clamp(round(x[m, k] / s_x[m]), -128, 127)      in the kernel, s_x[m] = max_k |x[m, k]| / 127
    y[m, n]   = s_x[m] * s_w[n] * sum_k q_x[m, k] * q_w[n, k]  int8 products, int32 sum, fp16 result

The layer computes s_x before it calls the kernel, in a small kernel of its own that the clock does not see.

Both scales are constant along K (per-token for X, per-channel for W), so they leave the sum and are applied
once, in the epilogue. That is what lets the sum itself run on the int8 tensor cores, at twice fp16's rate.

With few tokens (small M) the time goes into reading the weight, with many into the products and into
quantising: X is quantised again by every program that shares its rows.
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=3),
]
# YOUR CODE HERE


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """Y = (q_x @ qweight) * input_scale[:, None] * weight_scale[None, :].

    Every tensor begins at a multiple of 16 bytes, and spans fewer than 2^31 elements.
    x fp16 [M, K], element (m, k) at m * stride_xm + k * stride_xk; any strides.
    qweight int8 [K, N], the transposed view of a stored [N, K]: stride_wk is 1, stride_wn is K.
    input_scale fp32 [M]; weight_scale fp32 [N].
    y fp16 [M, N], element (m, n) at m * stride_ym + n * stride_yn, stride_yn being 1; zeros on entry
    when SPLIT_K > 1.
    M is any size, N and K are multiples of 16; none need be a multiple of the tile.

    Meta parameters: a program makes the BLOCK_M x BLOCK_N tile of Y that program_id(0) names, in
    steps of BLOCK_K; program_id(1) names one of SPLIT_K slices of K (with SPLIT_K == 1 there is one
    slice, and a plain store will do).

    To do, for each step along K: load a tile of x and of qweight, quantise x to int8 (round to
    nearest, then clamp to -128..127; input_scale may be too small for its row), add the product to
    an int32 accumulator. Then rescale, convert to fp16, store. Nothing outside the tensors may be
    read or written.
    """
    # YOUR CODE HERE
    pass


def W8A8_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))


def row_scales(rows: torch.Tensor) -> torch.Tensor:
    """The scale of each row: max|row| / 127, and 1 for a row of zeros. [R, K] floating-point -> fp32 [R]."""
    scale = rows.abs().amax(dim=1).float() / 127
    return torch.where(scale > 0, scale, torch.ones_like(scale))


@triton.jit
def ROW_SCALES(x_ptr, scale_ptr, K, stride_xm, stride_xk, BLOCK_K: tl.constexpr):
    """`row_scales` of x fp16 [M, K], any strides, into scale fp32 [M]; one program a row, BLOCK_K values at a time."""
    x_ptr += tl.program_id(0).to(tl.int64) * stride_xm
    offs_k = tl.arange(0, BLOCK_K)
    peaks = tl.zeros((BLOCK_K,), tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + (k + offs_k).to(tl.int64) * stride_xk, mask=offs_k < K - k, other=0.0)
        peaks = tl.maximum(peaks, tl.abs(x.to(tl.float32)))
    scale = tl.math.div_rn(tl.max(peaks, axis=0), 127.0)
    tl.store(scale_ptr + tl.program_id(0), tl.where(scale > 0, scale, 1.0))


SCALES_ARE_COMPILED = isinstance(ROW_SCALES, triton.JITFunction)
"""False under TRITON_INTERPRET=1. torch.compile cannot ask this itself while it follows a layer."""


def input_scales(x: torch.Tensor) -> torch.Tensor:
    """`row_scales` of x fp16 [M, K] -> fp32 [M], in one launch on a GPU. PyTorch launches a kernel for each step, which together take
    longer than the product of a few tokens."""
    if not (x.is_cuda and SCALES_ARE_COMPILED):
        return row_scales(x)
    M, K = x.shape
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    ROW_SCALES[(M,)](x, scale, K, *x.stride(), BLOCK_K=min(2048, triton.next_power_of_2(K)), num_warps=8)
    return scale


def quantise(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric int8 quantisation, one scale per row: row = q * scale, to within scale / 2 per element.

    rows: floating-point [R, K]. Returns q int8 [R, K] and scale fp32 [R].
    Raises ValueError when a value is infinite or NaN.
    """
    if not torch.isfinite(rows).all():
        raise ValueError(
            "quantise: found an infinite or NaN value, expected finite ones; clean the weight first"
        )
    scale = row_scales(rows)
    q = torch.round(rows.float() / scale[:, None]).clamp(-128, 127)
    return q.to(torch.int8), scale


def naive(
    x: torch.Tensor, qweight: torch.Tensor, input_scale: torch.Tensor, weight_scale: torch.Tensor
) -> torch.Tensor:
    """What W8A8_MM computes, in plain PyTorch; the integer sum is exact because fp64 holds it.

    x fp16 [M, K]; qweight int8 [K, N]; input_scale fp32 [M]; weight_scale fp32 [N]. Returns fp16 [M, N].
    """
    q = torch.round(x.double() / input_scale.double()[:, None]).clamp(-128, 127)
    y = (q @ qweight.double()) * input_scale.double()[:, None] * weight_scale.double()[None, :]
    return y.to(torch.float16)


class QuantizedLinear_w8a8(torch.nn.Module):
    """y = x W^T + bias with W in int8 and x quantised on the fly; for inference only.

    Buffers: qweight int8 [out_features, in_features], weight_scale fp32 [out_features], bias fp16
    [out_features] or None. in_features and out_features must be multiples of 16.
    """

    qweight: torch.Tensor
    weight_scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = False, device: torch.device | None = None
    ) -> None:
        super().__init__()
        if in_features % 16 or out_features % 16 or in_features < 16 or out_features < 16:
            raise ValueError(
                f"QuantizedLinear_w8a8: found in_features={in_features} and out_features={out_features}, "
                "expected positive multiples of 16; pad the Linear layer"
            )
        self.in_features, self.out_features = in_features, out_features
        shape = (out_features, in_features)
        self.register_buffer("qweight", torch.zeros(shape, dtype=torch.int8, device=device))
        self.register_buffer("weight_scale", torch.ones(out_features, dtype=torch.float32, device=device))
        zeros = torch.zeros(out_features, dtype=torch.float16, device=device)
        self.register_buffer("bias", zeros if bias else None)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear) -> "QuantizedLinear_w8a8":
        """Quantises the weight of a Linear layer.

        Raises TypeError for any other kind of module; ValueError for a bad shape or a weight that is not finite.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(
                f"from_linear: found {type(linear).__name__}, expected torch.nn.Linear; pass such a layer"
            )
        has_bias = linear.bias is not None
        layer = cls(linear.in_features, linear.out_features, has_bias, linear.weight.device)
        layer.qweight, layer.weight_scale = quantise(linear.weight.detach())
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
            launch(rows, self.qweight.t(), input_scales(rows), self.weight_scale, y)
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def _check(self, x: torch.Tensor) -> None:
        if x.dtype != torch.float16:
            raise TypeError(f"forward: found x in {x.dtype}, expected torch.float16; call x.half()")
        if self.weight_scale.dtype != torch.float32:
            raise TypeError(
                f"forward: found weight_scale in {self.weight_scale.dtype}, expected torch.float32; "
                "do not call .half() on this layer, and build it again with from_linear"
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
    x: torch.Tensor,
    qweight: torch.Tensor,
    input_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    y: torch.Tensor,
) -> None:
    """Runs W8A8_MM into y, whatever y holds. Shapes as for `naive`. x may have any strides; y any row stride, but
    contiguous columns.

    Raises ValueError for CPU tensors, unless the kernel is interpreted (TRITON_INTERPRET=1).
    """
    (M, K), N = x.shape, y.shape[1]
    strides = (*x.stride(), *qweight.stride(), *y.stride())
    arguments = (x, qweight, input_scale, weight_scale, y, M, N, K, *strides)

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        if meta.get("SPLIT_K", 1) > 1:  # its slices are added to y
            y.zero_()
        return W8A8_MM_grid(M, N, K, meta)

    if not isinstance(W8A8_MM.fn, triton.JITFunction):  # interpreted: autotuning would need a GPU to time
        meta = CONFIGS[0].kwargs
        W8A8_MM.fn[grid(meta)](*arguments, **meta)
    elif x.device.type == "cpu":
        raise ValueError(
            "forward: found x on cpu and a kernel compiled for a GPU, expected a CUDA tensor; "
            "move the layer and x with .cuda(), or set TRITON_INTERPRET=1 before Python starts"
        )
    else:
        # A tensor descriptor that a kernel makes lives in memory that Triton asks for here.
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=x.device))
        W8A8_MM[grid](*arguments)
