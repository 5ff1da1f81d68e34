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
### BEGIN SOLUTION
# Five decisions shape the kernel:
#
# - The product is transposed, Y^T = W X^T. The weights are then the operand that may come from registers, and
#   the 64 rows that Hopper's matrix instruction wants (wgmma) are columns of Y, of which there are many.
# - In that operand of wgmma four threads hold eight neighbours along K, two each: one word, two nibbles a thread. So
#   each thread reads the word and shifts its own two down. The weights could stand in another order of K, but
#   then X must follow, and it makes one more trip through shared memory: slower from 64 tokens on, by a tenth or more.
# - A nibble becomes fp16 without a conversion: the bits 0x6400 | u are the number 1024 + u, for u in 0..15.
#   Flipping the sign bit of the nibble makes u = q + 8, so subtracting 1032 leaves q, two nibbles at a time.
# - With few tokens every multiprocessor must read a share of the weight: SPLIT_K programs each add their slice
#   of K to the same tile of Y with atomics. Zeroing Y first costs 1.5 us, much less than an idle machine.
# - With one token, or up to eight, 16 columns by all of K are such a share, if the warps of the program split K
#   between them: a batch of SLICES small products, added up at the end. No zeroing, no atomics, the same bits every
#   time. A batch is multiplied by the older instruction (mma.sync), where a thread holds four neighbours along K
#   and X comes from registers, too. So X may follow the order in which a thread opens whole words, and the loop has
#   two thirds of the instructions.
CONFIGS = [
    # up to eight tokens: a BLOCK_N below 64 asks for slices
    triton.Config({"BLOCK_M": 1, "BLOCK_N": 16, "BLOCK_K": 512, "SPLIT_K": 1}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 8, "BLOCK_N": 16, "BLOCK_K": 512, "SPLIT_K": 1}, num_warps=4, num_stages=4),
    # a few tokens: K split among programs
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "SPLIT_K": 8}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=4),
    # a few dozen tokens
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=5),
    # many tokens: tall tiles, because a nibble is opened once for every BLOCK_M rows of Y. (Not 64 deep at 128 by
    # 128: on Triton 3.6 two of three such launches were wrong, as if wgmma read weights already overwritten. By eight
    # warps, 256 by 128, none of 60 was.)
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "SPLIT_K": 4}, num_warps=4, num_stages=5),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 2}, num_warps=8, num_stages=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "SPLIT_K": 2}, num_warps=4, num_stages=5),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=4),
]
### END SOLUTION


### BEGIN SOLUTION
@triton.jit
def to_fp16(two):
    """int32 with 1024 + u in each half, as fp16 bits -> fp16 [..., 2] of u - 8, the lower half first."""
    lower = two.to(tl.int16).to(tl.float16, bitcast=True)
    upper = (two >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return tl.join(lower, upper) - 1032.0


@triton.jit
def open_words(words, mask):
    """int32 [R, C], eight nibbles a word -> fp16 [R, 8 * C] in the order of K. `mask`: 0x000F000F, a nibble a half."""
    # A byte times 2^12 + 1 stands at bits 0..7 and at 12..19: its lower nibble at 0..3, its upper one at 16..19.
    byte = (words[:, :, None] >> (8 * tl.arange(0, 4))[None, None, :]) & 0xFF
    return tl.reshape(to_fp16(((byte * 4097) & mask) ^ 0x64086408), (words.shape[0], 8 * words.shape[1]))


@triton.jit
def open_whole_words(words, mask):
    """int32 [R, C], C a multiple of 4 -> fp16 [R, 8 * C] in the order that `follow_words` gives X.

    Nibbles i and i + 4 stand in the two halves of a word already. The four words of a group are those of four
    threads, each of which opens its own: positions 0 to 15 are nibbles 0, 4, 1, 5 of words 0, 1, 2 and 3,
    positions 16 to 31 their nibbles 2, 6, 3, 7. `mask`: 0x000F000F.
    """
    word = tl.reshape(words, (words.shape[0], words.shape[1] // 4, 4))[:, :, None, :, None]
    i = 2 * tl.arange(0, 2)[None, None, :, None, None] + tl.arange(0, 2)[None, None, None, None, :]
    return tl.reshape(to_fp16(((word >> (4 * i)) & mask) ^ 0x64086408), (words.shape[0], 8 * words.shape[1]))


@triton.jit
def follow_words(x):
    """fp16 [S, D, M] in the order of K -> the same in that of `open_whole_words`; D is a multiple of 32."""
    SLICES: tl.constexpr = x.shape[0]
    SLICE_K: tl.constexpr = x.shape[1]
    nibbles = tl.reshape(x, (SLICES * SLICE_K // 32, 4, 2, 2, 2, x.shape[2]))  # word, then nibble 4 a + 2 b + c
    return tl.reshape(tl.permute(nibbles, (0, 3, 1, 4, 2, 5)), (SLICES, SLICE_K, x.shape[2]))
### END SOLUTION


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
    ### BEGIN SOLUTION
    GROUP: tl.constexpr = 8
    SLICES: tl.constexpr = 1 if BLOCK_N >= 64 else 8  # two a warp
    SLICE_K: tl.constexpr = BLOCK_K // SLICES
    WORDS: tl.constexpr = SLICE_K // 8
    COLUMNS: tl.constexpr = BLOCK_M if BLOCK_M > 8 else 8  # the matrix instruction has eight at least

    # Programs that run at the same time take GROUP row tiles of X by all columns: their operands fit in L2.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP * tiles_n) * GROUP
    group_m = tl.minimum(tiles_m - first_m, GROUP)
    pid_in_group = pid % (GROUP * tiles_n)
    first_row = (first_m + pid_in_group % group_m) * BLOCK_M
    offs_n = pid_in_group // group_m * BLOCK_N + tl.arange(0, BLOCK_N)

    # Asked for now, the scales are there when the epilogue wants them: 0.2 us with one token.
    in_n = offs_n < N
    scales = tl.load(scales_ptr + offs_n, mask=in_n, other=0.0).to(tl.float32)

    # Rows of X beyond the matrix read its last one again, and the final store leaves them out; slices leave them
    # unread, meant for 2 to 7 tokens in a tile of 8. Columns are masked, not clamped: neighbouring words of a row
    # of qweight are loaded as one vector only if the compiler sees that their addresses are consecutive.
    offs_m = first_row + tl.arange(0, BLOCK_M)
    if SLICES == 1:  # W is [n, k], X is [k, m]
        k_x, m = tl.arange(0, BLOCK_K)[:, None], tl.minimum(offs_m, M - 1)[None, :]
        n, k_w = offs_n[:, None], tl.arange(0, WORDS)[None, :]
        acc = tl.zeros((BLOCK_N, COLUMNS), dtype=tl.float32)
    else:  # W is [slice, n, k], X is [slice, k, m]
        rs = tl.arange(0, SLICES)[:, None, None]
        k_x, m = rs * SLICE_K + tl.arange(0, SLICE_K)[None, :, None], offs_m[None, None, :]
        n, k_w = offs_n[None, :, None], rs * WORDS + tl.arange(0, WORDS)[None, None, :]
        acc = tl.zeros((SLICES, BLOCK_N, COLUMNS), dtype=tl.float32)

    # Known to be 0 when K is not split, so that the loop need not carry it. Offsets are int64: M * K may
    # exceed 2^31.
    k_start = 0 if SPLIT_K == 1 else tl.program_id(1) * BLOCK_K
    k_step = tl.full((), BLOCK_K * SPLIT_K, tl.int64)
    word_step = tl.full((), BLOCK_K * SPLIT_K // 8, tl.int64)
    x_ptrs = x_ptr + (k_start + k_x).to(tl.int64) * stride_xk + m.to(tl.int64) * stride_xm
    w_ptrs = qweight_ptr + n.to(tl.int64) * stride_wn + (k_start // 8 + k_w).to(tl.int64) * stride_wk

    # An instruction may take one constant and not two. This one comes from a register, since the compiler cannot
    # know that N > 0: then `& mask` and `^ 0x64086408` are one instruction, a ninth of the loop with 16 tokens.
    mask = tl.where(N > 0, 0x000F000F, 0)

    for k in range(k_start, K, BLOCK_K * SPLIT_K):
        in_x = k_x < K - k if SLICES == 1 else (k_x < K - k) & (m < M)
        x = tl.load(x_ptrs, mask=in_x, other=0.0)
        words = tl.load(w_ptrs, mask=(n < N) & (k_w < (K - k) // 8), other=0)
        if SLICES == 1:
            w = open_words(words, mask)
        else:
            x = tl.broadcast_to(follow_words(x), (SLICES, SLICE_K, COLUMNS))  # one token fills all columns
            w = open_whole_words(tl.reshape(words, (SLICES * BLOCK_N, WORDS)), mask)
            w = tl.reshape(w, (SLICES, BLOCK_N, SLICE_K))
        acc = tl.dot(w, x, acc)
        x_ptrs += k_step * stride_xk
        w_ptrs += word_step * stride_wk
    if SLICES > 1:
        acc = tl.sum(acc, axis=0)

    y = tl.trans((acc * scales[:, None]).to(tl.float16))
    rc = tl.arange(0, COLUMNS)
    y_ptrs = y_ptr + (first_row + rc).to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    inside = ((rc < BLOCK_M) & (first_row + rc < M))[:, None] & in_n[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="relaxed")
    ### END SOLUTION


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
