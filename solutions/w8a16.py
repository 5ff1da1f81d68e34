"""W8A16: int8 weights, one scale an output channel, with fp16 activations. A bonus lab.

    w[n, k] = scales[n] * q[n, k],   q in -128..127
    y[m, n] = scales[n] * sum_k x[m, k] * q[n, k]

The scale is constant along K (per-channel), so it leaves the sum: the loop multiplies x with bare integers,
which fp16 holds exactly, and the fp32 accumulator is scaled once, in the epilogue.

There is no int8 x fp16 matrix instruction, so what is gained is bytes. With few tokens (small M) the time goes
into reading the weight, half of its fp16 size. With many it goes into as many fp16 products as without
quantisation, and making fp16 from bytes comes on top: every program that shares a row of the weight does it again.
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=3),
]
### BEGIN SOLUTION
# Three decisions shape the kernel, and its tiles are the fastest of a few hundred on an H200:
#
# - A byte becomes fp16 without a conversion, which has half of the rate of most instructions or less: the bits
#   0x6400 | u are the number 1024 + u, for u in 0..255. Flipping the sign bit of the byte makes u = q + 128, so
#   subtracting 1152 leaves q.
# - The product is transposed, Y^T = W X^T. The weights are then the operand that may come from registers, and
#   the 64 rows that Hopper's matrix instruction wants (wgmma) are columns of Y, of which there are many.
# - One token needs no matrix instruction at all, which would multiply seven columns of nothing: the other form is a
#   elementwise product and one sum along K. Here a conversion straight to fp32 makes the shortest loop.
#
# From two tokens on, SPLIT_K programs share a tile of Y. Slices of K among the warps of one program, as in
# solutions/w4a16.py, were as fast to within 3 % up to eight tokens and slower beyond, so they are not here.
CONFIGS = [
    # one token: a BLOCK_M of 1 asks for the sum along K
    triton.Config({"BLOCK_M": 1, "BLOCK_N": 8, "BLOCK_K": 256, "SPLIT_K": 1}, num_warps=2, num_stages=3),
    # up to a few dozen: K split among programs
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=2, num_stages=4),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4, num_stages=5),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=5),
    # many: tall tiles, because a byte is opened once for every BLOCK_M rows of Y
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 2}, num_warps=8, num_stages=4),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=8, num_stages=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=8, num_stages=4),
]
### END SOLUTION


### BEGIN SOLUTION
@triton.jit
def open_bytes(q):
    """int8 of any shape -> the same numbers in fp16."""
    return ((q.to(tl.int16) & 0xFF) ^ 0x6480).to(tl.float16, bitcast=True) - 1152.0


@triton.jit
def sum_for_one(
    x_ptr, w_ptr, offs_n, N, K, stride_xk, stride_wn, k_start,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, K_STEP: tl.constexpr,
):  # fmt: skip
    """One token: fp32 [BLOCK_N, 1] of x q, element by element. x_ptr: its row of X."""
    rk = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (k_start + rk).to(tl.int64) * stride_xk
    w_ptrs = w_ptr + offs_n.to(tl.int64)[:, None] * stride_wn + (k_start + rk)[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for k in tl.range(k_start, K, K_STEP, num_stages=4):  # without tl.dot, only a loop that says so is pipelined
        x = tl.load(x_ptrs, mask=rk < K - k, other=0.0)
        q = tl.load(w_ptrs, mask=(offs_n < N)[:, None] & (rk < K - k)[None, :], other=0)
        acc += q.to(tl.float32) * x.to(tl.float32)[None, :]
        x_ptrs += tl.full((), K_STEP, tl.int64) * stride_xk
        w_ptrs += K_STEP
    return tl.sum(acc, axis=1, keep_dims=True)


@triton.jit
def sum_of_tile(
    x_ptr, w_ptr, offs_m, offs_n, M, N, K, stride_xm, stride_xk, stride_wn, k_start,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, K_STEP: tl.constexpr,
):  # fmt: skip
    """Many tokens: fp32 [BLOCK_N, BLOCK_M] of x q. Rows of X beyond the matrix read its last one again."""
    rk = tl.arange(0, BLOCK_K)
    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    x_ptrs = x_ptr + (k_start + rk).to(tl.int64)[:, None] * stride_xk + row[None, :] * stride_xm
    w_ptrs = w_ptr + offs_n.to(tl.int64)[:, None] * stride_wn + (k_start + rk)[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for k in range(k_start, K, K_STEP):
        x = tl.load(x_ptrs, mask=(rk < K - k)[:, None], other=0.0)
        q = tl.load(w_ptrs, mask=(offs_n < N)[:, None] & (rk < K - k)[None, :], other=0)
        acc = tl.dot(open_bytes(q), x, acc)
        x_ptrs += tl.full((), K_STEP, tl.int64) * stride_xk
        w_ptrs += K_STEP
    return acc
### END SOLUTION


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """Y = x @ (qweight * scales[None, :]).

    Every tensor begins at a multiple of 16 bytes, and spans fewer than 2^31 elements.
    x fp16 [M, K], element (m, k) at m * stride_xm + k * stride_xk; any strides.
    qweight int8 [K, N], -128 to 127, the transposed view of a stored [N, K]: stride_wk is 1;
    stride_wn is K or more, a multiple of 16, as is the address of qweight.
    scales fp16 [N].
    y fp16 [M, N], element (m, n) at m * stride_ym + n * stride_yn, stride_yn being 1; zeros on entry
    when SPLIT_K > 1.
    M is any size, N and K are multiples of 16; none need be a multiple of the tile.

    Meta parameters: a program makes the BLOCK_M x BLOCK_N tile of Y that program_id(0) names, in
    steps of BLOCK_K; program_id(1) names one of SPLIT_K slices of K (with SPLIT_K == 1 there is one
    slice, and a plain store will do).

    To do, for each step along K: load a tile of x and of qweight, turn the integers to fp16, add
    the product to an fp32 accumulator. Apply the scales once, convert to fp16, store. Nothing
    outside the tensors may be read or written.
    """
    ### BEGIN SOLUTION
    GROUP: tl.constexpr = 8
    K_STEP: tl.constexpr = BLOCK_K * SPLIT_K

    # Programs that run at the same time take GROUP row tiles of X by all columns: their operands fit in L2.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP * tiles_n) * GROUP
    group_m = tl.minimum(tiles_m - first_m, GROUP)
    pid_in_group = pid % (GROUP * tiles_n)
    first_row = (first_m + pid_in_group % group_m) * BLOCK_M
    offs_m = first_row + tl.arange(0, BLOCK_M)
    offs_n = pid_in_group // group_m * BLOCK_N + tl.arange(0, BLOCK_N)

    # Asked for now, the scales are there when the epilogue wants them.
    scales = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)

    # Known to be 0 when K is not split, so that the loop need not carry it. Offsets are int64: M * K may exceed 2^31.
    k_start = 0 if SPLIT_K == 1 else tl.program_id(1) * BLOCK_K
    if BLOCK_M == 1:
        x_row = x_ptr + first_row.to(tl.int64) * stride_xm
        acc = sum_for_one(x_row, qweight_ptr, offs_n, N, K, stride_xk, stride_wn, k_start, BLOCK_N, BLOCK_K, K_STEP)
    else:
        acc = sum_of_tile(
            x_ptr, qweight_ptr, offs_m, offs_n, M, N, K, stride_xm, stride_xk, stride_wn, k_start,
            BLOCK_M, BLOCK_N, BLOCK_K, K_STEP,
        )  # fmt: skip

    y = tl.trans((acc * scales[:, None]).to(tl.float16))
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="relaxed")
    ### END SOLUTION


def W8A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))


def quantise(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric int8 quantisation, one scale per row: row = q * scale, to within scale / 2 per element.

    scale = max|row| / 127 in fp16, and 1 for a row of zeros. Where fp16 runs out of bits (max|row| below about
    1e-3) that may round so far down that 127 * scale misses the largest element; the scale is then the next
    fp16 number.

    rows: floating-point [R, K]. Returns q int8 [R, K] in -128..127 and scale fp16 [R].
    Raises ValueError when a value is infinite or NaN, or too large for an fp16 scale.
    """
    if not torch.isfinite(rows).all():
        raise ValueError(
            "quantise: found an infinite or NaN value, expected finite ones; clean the weight first"
        )
    peak = rows.abs().amax(dim=1).float()
    scale = (peak / 127).to(torch.float16)
    if torch.isinf(scale).any():
        raise ValueError(
            f"quantise: found a weight of size {peak.max().item():.3g}, expected at most 127 * 65504 so that "
            "its scale fits fp16; rescale the layer"
        )
    scale = torch.where(scale.float() * 127.5 < peak, scale + 2.0**-24, scale)
    scale = torch.where(peak > 0, scale, torch.ones_like(scale))
    q = torch.round(rows.float() / scale.float()[:, None]).clamp(-128, 127)
    return q.to(torch.int8), scale


def naive(x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What W8A16_MM computes, in plain PyTorch and fp64.

    x fp16 [M, K]; qweight int8 [K, N]; scales fp16 [N]. Returns fp16 [M, N].
    """
    return ((x.double() @ qweight.double()) * scales.double()[None, :]).to(torch.float16)


class QuantLinear_w8a16(torch.nn.Module):
    """y = x W^T + bias with W in int8; for inference only.

    Buffers: qweight int8 [out_features, in_features], scales fp16 [out_features], bias fp16
    [out_features] or None. in_features and out_features must be multiples of 16.
    """

    qweight: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = False, device: torch.device | None = None
    ) -> None:
        super().__init__()
        if in_features % 16 or out_features % 16 or in_features < 16 or out_features < 16:
            raise ValueError(
                f"QuantLinear_w8a16: found in_features={in_features} and out_features={out_features}, "
                "expected positive multiples of 16; pad the Linear layer"
            )
        self.in_features, self.out_features = in_features, out_features
        shape = (out_features, in_features)
        self.register_buffer("qweight", torch.zeros(shape, dtype=torch.int8, device=device))
        self.register_buffer("scales", torch.ones(out_features, dtype=torch.float16, device=device))
        zeros = torch.zeros(out_features, dtype=torch.float16, device=device)
        self.register_buffer("bias", zeros if bias else None)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear) -> "QuantLinear_w8a16":
        """Quantises the weight of a Linear layer.

        Raises TypeError for any other kind of module; ValueError for a bad shape or a weight that is not finite.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(
                f"from_linear: found {type(linear).__name__}, expected torch.nn.Linear; pass such a layer"
            )
        has_bias = linear.bias is not None
        layer = cls(linear.in_features, linear.out_features, has_bias, linear.weight.device)
        layer.qweight, layer.scales = quantise(linear.weight.detach())
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
            launch(rows, self.qweight.t(), self.scales, y)
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
    """Runs W8A16_MM into y, whatever y holds. Shapes as for `naive`. x may have any strides; y any row stride, but
    contiguous columns.

    Raises ValueError for CPU tensors, unless the kernel is interpreted (TRITON_INTERPRET=1).
    """
    (M, K), N = x.shape, y.shape[1]
    arguments = (x, qweight, scales, y, M, N, K, *x.stride(), *qweight.stride(), *y.stride())

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        if meta.get("SPLIT_K", 1) > 1:  # its slices are added to y
            y.zero_()
        return W8A16_MM_grid(M, N, K, meta)

    if not isinstance(W8A16_MM.fn, triton.JITFunction):  # interpreted: autotuning would need a GPU to time
        meta = CONFIGS[0].kwargs
        W8A16_MM.fn[grid(meta)](*arguments, **meta)
    elif x.device.type == "cpu":
        raise ValueError(
            "forward: found x on cpu and a kernel compiled for a GPU, expected a CUDA tensor; "
            "move the layer and x with .cuda(), or set TRITON_INTERPRET=1 before Python starts"
        )
    else:
        W8A16_MM[grid](*arguments)
