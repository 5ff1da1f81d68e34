# %% [markdown]
# # W8A16: half of the bytes
#
# **A bonus lab.** Its points do not count towards the 300 of the other three; you lose nothing by skipping it.
#
# $$y_{mn} = s_n \sum_k x_{mk}\,q_{kn}, \qquad q_{kn} \in \{-128, \dots, 127\}$$
#
# - The weight arrives as int8, one byte each, with one fp16 scale $s_n$ for each output channel.
# - The activations stay fp16: **weight-only** quantisation, as in W4A16, but with nothing to unpack and much less to lose.
# - **Your kernel**, `W8A16_MM`, converts each tile of the weight to fp16 on its way into the product.
#
# Two questions run through this notebook: how many scales does a weight need, and what is there to gain when no instruction
# multiplies fp16 by int8?

# %% [markdown] lang="zh"
# # W8A16：一半的字节
#
# **这是附加实验。** 它的分数不计入另外三个实验的 300 分；不做不扣分。
#
# $$y_{mn} = s_n \sum_k x_{mk}\,q_{kn}, \qquad q_{kn} \in \{-128, \dots, 127\}$$
#
# - 权重以 int8 存放，每个一字节，每个输出通道有一个 fp16 的 scale $s_n$。
# - 激活保持 fp16：与 W4A16 一样**只量化权重**，但不用拆包，误差也小得多。
# - **你的 kernel** `W8A16_MM` 在权重的每个 tile 进入乘法之前，把它转换成 fp16。
#
# 这个 notebook 围绕两个问题展开：一个权重需要多少个 scale？既然没有 fp16 乘 int8 的指令，还能得到什么？

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## How many weights share a scale?
#
# A scale is $\max|w| / 127$ over the elements that share it: the largest one decides how coarsely all the others are rounded.
#
# - **per tensor**: one scale for the whole weight,
# - **per channel**: one for each row of the stored weight $[N, K]$, that is for each output,
# - **per group**: one for every 128 (or 64, or 32) elements of a row.
#
# Here is a weight like those in real networks: some channels are ten times as large as others, and a few elements stick out. Predict
# first: by which factor does the error fall from the first line to the second, and from the second to the third?

# %% [markdown] lang="zh"
# ## 一个 scale 管多少个数？
#
# scale 等于共用它的那些元素的 $\max|w| / 127$：其中最大的一个，决定了其余元素量化得有多粗。
#
# - **逐张量**（per tensor）：整个权重一个 scale；
# - **逐通道**（per channel）：存储的权重 $[N, K]$ 每行一个，也就是每个输出一个；
# - **逐组**（per group）：一行里每 128（或 64、32）个元素一个。
#
# 下面这个权重与真实网络里的相似：有些通道是别的通道的十倍大，还有少数元素特别突出。先预测：误差从第一行到第二行会降到几分之一？从第二行到第三行呢？

# %%
torch.manual_seed(0)
weight = torch.randn(256, 1024) * torch.logspace(-1, 0, 256)[:, None]
weight[torch.randint(256, (40,)), torch.randint(1024, (40,))] *= 6


def error(rows, group):
    """Relative error of `rows` in int8, one scale for each `group` elements; and the median of the single channels' errors."""
    parts = rows.reshape(-1, group)
    scale = parts.abs().amax(dim=1, keepdim=True) / 127
    back = (torch.round(parts / scale).clamp(-128, 127) * scale).view_as(rows)
    of_channels = (back - rows).norm(dim=1) / rows.norm(dim=1)
    return float((back - rows).norm() / rows.norm()), float(of_channels.median())


for name, group in (("per tensor", weight.numel()), ("per channel", weight.shape[1]), ("per group of 128", 128), ("per group of 32", 32)):
    whole, median = error(weight, group)
    scales_bytes = 2 * weight.numel() // group
    print(f"{name:18} error {whole:6.2%}, median channel {median:6.2%}, scales {scales_bytes:6} bytes = {scales_bytes / weight.numel():.1%} of the weight")

# %% [markdown]
# The step from tensor to channel helps most, above all for the small channels: a shared scale is set by the largest channel. It costs
# almost nothing, in bytes and in time, because a scale that is constant along $K$ can be moved out of the sum:
#
# $$\sum_k x_{mk}\,(s_n q_{kn}) = s_n \sum_k x_{mk}\,q_{kn}$$
#
# A scale for each group cannot be moved out of the whole sum. The kernel has to scale a partial sum for each group, or every weight
# before the product. With eight bits groups gain little; with four they are needed, which is why int4 formats have them.
#
# One channel of the same weight, with an outlier, and its 256 levels:

# %% [markdown] lang="zh"
# 从逐张量到逐通道，这一步收益最大，对小的通道尤其明显：所有通道共用一个 scale 时，它由最大的通道决定。
# 代价几乎没有，字节和时间都是如此，因为沿 $K$ 不变的 scale 可以提到求和号外面：
#
# $$\sum_k x_{mk}\,(s_n q_{kn}) = s_n \sum_k x_{mk}\,q_{kn}$$
#
# 逐组的 scale 不能整个提出来：kernel 要么为每一组给部分和乘一次 scale，要么在乘法之前给每个权重乘 scale。八位时收益不大；四位时则必不可少，
# 所以 int4 格式都分组。
#
# 同一个权重里带有突出元素的一个通道，以及它的 256 个取值：

# %%
row = weight[(weight.abs().amax(dim=1) / weight.std(dim=1)).argmax()]
pictures.quantisation(row, float(row.abs().max() / 127), bits=8, name="one output channel")

# %% [markdown]
# ## "There is no hardware for it"
#
# An article says (`claims.ipynb` names it, and tests its claim): tensor cores multiply fp16 by fp16 and int8 by int8, and never fp16
# by int8; so W8A8 is accelerated and W8A16 is not. The first half is true. `tl.dot(x, q)` with an fp16 `x` and an int8 `q` does not
# compile, so the weight must become fp16 in the kernel, and the products then run at fp16 speed.
#
# But with few tokens it is not the products that take time. The next cell computes this, with the peaks of an H200,
# @bench{bytes_per_second / 1e12:.1f} TB/s and @bench{fp16_per_second / 1e12:.0f} TFLOP/s in fp16:

# %% [markdown] lang="zh"
# ## “没有硬件支持”
#
# 一篇文章说（`claims.ipynb` 注明了出处，并检验了这个结论）：Tensor Core 能算 fp16 乘 fp16、int8 乘 int8，但不能算 fp16 乘 int8；所以 W8A8 能加速，W8A16 不能。
# 前半句是对的。`x` 是 fp16、`q` 是 int8 时，`tl.dot(x, q)` 无法编译，所以权重必须在 kernel 里变成 fp16，做的就是 fp16 乘法，不会更快。
#
# 但是 token 少的时候，时间并不花在乘法上。下面用一个单元算一算，速度取 H200 的峰值：
# @bench{bytes_per_second / 1e12:.1f} TB/s，fp16 @bench{fp16_per_second / 1e12:.0f} TFLOP/s：

# %%
bytes_a_second, operations_a_second = 4.8e12, 1.07e15  # peaks of an H200; put those of your GPU here
N = K = 4096
for M in (1, 16, 64, 256, 512, 4096):
    products = 2 * M * N * K / operations_a_second
    memory = {bits: (2 * M * K + N * K * bits // 8 + 2 * M * N) / bytes_a_second for bits in (16, 8)}
    fp16, int8 = (max(memory[bits], products) for bits in (16, 8))
    print(f"M = {M:4}: fp16 at least {1e6 * fp16:6.1f} us, W8A16 at least {1e6 * int8:6.1f} us, at most {fp16 / int8:.2f} times as fast")

# %% [markdown]
# What is gained is **bytes**. At $M = 1$ the time is at best about half of fp16's (cuBLAS fp16 takes
# @bench{cublas_us("w4a16", "m1_n4096_k4096"):.1f} us there); with hundreds of tokens nothing is gained, and the conversion comes on top. So the article is right about products, and wrong about a model that writes one token at a time.
#
# Half of the *memory* is saved in any case, however many tokens there are.
#
# ## The layer around your kernel
#
# This is given. `quantise` makes the scales; `qweight` is stored as $[N, K]$, and the kernel gets its transposed view: `stride_wk` is 1.

# %% [markdown] lang="zh"
# 得到的是**字节**。$M = 1$ 时，最好的情况大约是 fp16 的一半时间（cuBLAS fp16 在这里用
# @bench{cublas_us("w4a16", "m1_n4096_k4096"):.1f} us）；有几百个 token 时什么也得不到，还要另花转换的时间。
# 所以文章这句话，就乘法而言是对的；就一次只生成一个 token 的模型而言，是错的。
#
# 无论有多少 token，**显存**总归省了一半。
#
# ## kernel 所在的层
#
# 这一部分已经写好。`quantise` 计算 scale；`qweight` 按 $[N, K]$ 存放，kernel 拿到的是它的转置视图：`stride_wk` 等于 1。

# %%
# include solutions/w8a16.py: quantise .. launch

# %% [markdown]
# ## Two functions that you know
#
# You wrote them for the opening and for W8A8. Run the cell. `load_tile` loads a tile of *any* matrix: use it for $X$ and for the weight.

# %% [markdown] lang="zh"
# ## 两个熟悉的函数
#
# 你在 opening 和 W8A8 里写过它们。运行这个单元即可。`load_tile` 能读**任何**矩阵的 tile：读 $X$ 和读权重都用它。

# %%
# include notebooks/source/parts/load_tile.py


# include notebooks/source/parts/store_tile.py

# %% [markdown]
# ## Step 1: fp16 from bytes
#
# `q.to(tl.float16)` is right. It takes one conversion instruction for each weight, and these run at a fraction of the rate of others.
#
# There is another way, without a conversion. The fp16 number with the bits `0x6400` is 1024, and its lowest bit is worth 1: put a number
# $u$ from 0 to 255 into the low byte, and it is $1024 + u$. Flip the sign bit of `q`, and the byte is $u = q + 128$. So
#
# $$(q\ \&\ \mathtt{0xFF}) \oplus \mathtt{0x6480}$$
#
# are the bits of $1152 + q$: take them as fp16 (`.to(tl.float16, bitcast=True)`) and subtract 1152. `q.to(tl.int16)` gives the bits room.
# Use either one; both are exact.

# %% [markdown] lang="zh"
# ## 第 1 步：由字节得到 fp16
#
# `q.to(tl.float16)` 是对的。它给每个权重一条类型转换指令，而这类指令的吞吐只有其他指令的几分之一。
#
# 还有一种办法，只搬动位。位模式为 `0x6400` 的 fp16 数是 1024，它的最低位代表 1：把 0 到 255 的数 $u$ 放进低字节，得到的就是 $1024 + u$。
# 把 `q` 的符号位翻转，这个字节就是 $u = q + 128$。所以
#
# $$(q\ \&\ \mathtt{0xFF}) \oplus \mathtt{0x6480}$$
#
# 就是 $1152 + q$ 的位模式：把它当作 fp16（`.to(tl.float16, bitcast=True)`），再减去 1152。`q.to(tl.int16)` 给这些位腾出空间。
# 用哪种办法都可以，两种都是精确的。

# %% solution="w8a16_step_convert"
@triton.jit
def to_half(q):
    """int8 of any shape -> the same numbers in fp16."""
    ### BEGIN SOLUTION
    bits = (q.to(tl.int16) & 0xFF) ^ 0x6480
    return bits.to(tl.float16, bitcast=True) - 1152.0
    ### END SOLUTION

# %% test="w8a16_step_convert_check"
check("w8a16", step="convert")

# %% [markdown]
# ## Step 2: one dot
#
# fp16 operands, fp32 accumulator. Which of the two tiles has to be converted?

# %% [markdown] lang="zh"
# ## 第 2 步：一次 dot
#
# 操作数是 fp16，累加器是 fp32。两个 tile 里，哪一个要改变类型？

# %% solution="w8a16_step_dot"
@triton.jit
def multiply_tiles(x, q, acc):
    """x fp16 [rows, depth], q int8 [depth, columns], acc fp32 [rows, columns] -> acc + x @ q, fp32."""
    ### BEGIN SOLUTION
    return tl.dot(x, to_half(q), acc)
    ### END SOLUTION

# %% test="w8a16_step_dot_check"
check("w8a16", step="dot")

# %% [markdown]
# ## Step 3: the loop
#
# Loop along $K$: load a tile of $X$ and the tile of the weight for the same k, multiply, add. $K$ may end inside the last tile, and the
# columns of the weight may be further apart than $K$: use `stride_wk` and `stride_wn`.

# %% [markdown] lang="zh"
# ## 第 3 步：循环
#
# 沿 $K$ 前进：读 $X$ 的一个 tile，读与它对应的权重 tile，相乘，累加。$K$ 可能在最后一个 tile 的中间结束；
# 权重相邻两列的间隔也可能大于 $K$：请用 `stride_wk` 和 `stride_wn`。

# %% solution="w8a16_step_loop"
@triton.jit
def accumulate(
    x_ptr, qweight_ptr, rows, columns, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The sum of one tile, without scales: fp32 [BLOCK_M, BLOCK_N]."""
    ### BEGIN SOLUTION
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = load_tile(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
        q = load_tile(qweight_ptr, depth, columns, K, N, stride_wk, stride_wn)
        acc = multiply_tiles(x, q, acc)
    return acc
    ### END SOLUTION

# %% test="w8a16_step_loop_check"
check("w8a16", step="loop")

# %% [markdown]
# ## Step 4: the epilogue
#
# $s_n$ was moved out of the sum. Apply it once, while the sum is still in fp32, and convert to fp16 after that: int8 integers are
# sixteen times as large as those of int4, so sums beyond fp16's 65504 are common here, and inf stays inf.

# %% [markdown] lang="zh"
# ## 第 4 步：收尾（epilogue）
#
# $s_n$ 已经提到求和号外面。趁和还是 fp32 时乘一次，之后再转换成 fp16：int8 的整数比 int4 的大十六倍，和超出 fp16 的 65504
# 在这里很平常，而 inf 一旦出现就一直是 inf。

# %% solution="w8a16_step_epilogue"
@triton.jit
def apply_scales(acc, scales):
    """acc fp32 [rows, columns], scales fp16 [columns] -> fp16 [rows, columns]."""
    ### BEGIN SOLUTION
    return (acc * scales.to(tl.float32)[None, :]).to(tl.float16)
    ### END SOLUTION

# %% test="w8a16_step_epilogue_check"
check("w8a16", step="epilogue")

# %% [markdown]
# ## The kernel
#
# Put together, the pieces are a kernel worth 60 points:
#
# 1. Which tile of $Y$ is this program's? `pid = tl.program_id(0)` counts tiles row by row, `tl.cdiv(N, BLOCK_N)` of them in a row. From
#    `pid`, `rows` and `columns`, as in the other labs.
# 2. The scales of its columns: one load of one axis, masked at `N`.
# 3. `accumulate(...)`, then `apply_scales(...)`, then `store_tile(...)`.
#
# Write this in place of `pass`. More configs and helpers above the kernel are for later; so is `SPLIT_K`, which changes nothing while
# it is 1.

# %% [markdown] lang="zh"
# ## kernel
#
# 把零件拼起来，就是一个值 60 分的 kernel：
#
# 1. 这个程序负责 $Y$ 的哪个 tile？`pid = tl.program_id(0)` 逐行给 tile 编号，每一行有 `tl.cdiv(N, BLOCK_N)` 个。由 `pid` 得出 `rows` 和 `columns`，与其他实验相同。
# 2. 读取它那些列的 scale：只有一个轴的一次读取，mask 以 `N` 为界。
# 3. `accumulate(...)`，然后 `apply_scales(...)`，然后 `store_tile(...)`。
#
# 写在 `pass` 的位置。kernel 上方还可以加更多 config 和辅助函数，那是后面的事；`SPLIT_K` 也先别管，它等于 1 时没有任何影响。

# %% solution="w8a16_kernel"
# include solutions/w8a16.py: CONFIGS .. W8A16_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes a while.

# %% [markdown] lang="zh"
# 这就是评分程序。没有 GPU 时要等一会儿。

# %% test="w8a16_correctness" points=60
check("w8a16")

# %% [markdown]
# ## Your kernel in its layer
#
# The same random layer as in W4A16: what do four more bits buy?

# %% [markdown] lang="zh"
# ## 把你的 kernel 放进层里
#
# 与 W4A16 里相同的随机层：多四位能换来什么？

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(128, 64, bias=False)
layer = QuantLinear_w8a16.from_linear(linear).to(device)
x = torch.randn(5, 128, device=device).half()
y, exact = layer(x).double().cpu(), x.double().cpu() @ linear.weight.detach().double().T
print(f"relative error of this layer with 8 bits: {float((y - exact).norm() / exact.norm()):.2%}")
print(f"its weight takes {layer.qweight.numel()} bytes instead of {linear.weight.numel() * 2} in fp16")

# %% [markdown]
# ## What your kernel does to memory
#
# Nothing is graded here. Predict: with a tile of 64 columns of $Y$ and fp16 $X$, which tensor does a program load more bytes of?

# %% [markdown] lang="zh"
# ## 你的 kernel 怎样访问内存
#
# 这里不计分。先预测：$Y$ 的 tile 宽 64 列，$X$ 是 fp16，一个程序从哪个张量读的字节更多？

# %%
from grader.notebook import show_memory, show_programs, show_warp

show_memory("w8a16", program=5)

# %%
show_warp("w8a16")

# %% [markdown]
# Neighbours along $K$ are neighbours in memory, a byte each: sixteen of them fit into the widest load of a thread.

# %% [markdown] lang="zh"
# 沿 $K$ 相邻的元素在内存里也相邻，每个一字节：一个线程最宽的一次读取能装下十六个。

# %%
show_programs("w8a16")

# %% [markdown]
# ## One token
#
# With $M = 1$, `tl.dot` multiplies a tile of at least 16 rows, of which 15 are empty. According to the lecture, PyTorch's compiler
# avoids that with an elementwise product and a sum along $K$, `torch.sum(x.unsqueeze(-1) * w, dim=-2)`. Its kernel was faster than
# both the quantised one with `tl.dot` and the one in fp16, though it uses no tensor core at all.
#
# ### Step 5: the product without a matrix instruction

# %% [markdown] lang="zh"
# ## 只有一个 token
#
# $M = 1$ 时，`tl.dot` 乘的 tile 至少有 16 行，其中 15 行是空的。讲座讲到 PyTorch 的编译器怎样绕开它：逐元素相乘，再沿 $K$ 求和，
# 即 `torch.sum(x.unsqueeze(-1) * w, dim=-2)`。这样的 kernel 完全不用 Tensor Core，却比用 `tl.dot` 的量化 kernel 和 fp16 的都快。
#
# ### 第 5 步：不用矩阵指令的乘法

# %% solution="w8a16_step_one"
@triton.jit
def multiply_one(x, q):
    """One token: x fp16 [depth], q int8 [depth, columns] -> fp32 [columns], the sum over depth of x * q."""
    ### BEGIN SOLUTION
    return tl.sum(x.to(tl.float32)[:, None] * q.to(tl.float32), axis=0)
    ### END SOLUTION

# %% test="w8a16_step_one_check"
check("w8a16", step="one")

# %% [markdown]
# ## How fast can it get?
#
# A correct kernel is worth 60 points, a fast one the other 40. This is how the reference solution became fast, one idea per step,
# each timed on an H200:
#
# 1. **Naive**: one tile for all sizes, `tl.dot`. With one token it multiplies empty rows, and only 64 programs read the whole weight.
# 2. **GEMV**: for one token an elementwise product and one sum along $K$, with few columns per program, so that there are enough programs.
#    By itself this was slower than the naive kernel: each iteration waits for its few bytes.
# 3. **Wide loads**: neighbours along $K$ in one thread, 16 bytes per load, several tiles in flight.
# 4. **Split-K**: with a few tokens `tl.dot` pays again; `SPLIT_K` programs share a tile of $Y$, each takes a part of $K$, atomics join them.
# 5. **One kernel for all $M$**: the weight first, `tl.dot(w, x)`, unpacked by bits in the registers that multiply it; tall tiles for many tokens.
#    The autotuner chooses among the forms.
#
# @ladder w8a16: m1_n4096_k4096 m16_n4096_k4096 m512_n4096_k4096
#
# Three steps below lead there: GEMV with wide loads, split-K, and the weight first. Each has one number to predict and one cell that checks. The checks measure no time: they look at the launch and at what the
# compiler made of your kernel for an H200. They are worth no points; the clock at the end is.

# %% [markdown] lang="zh"
# ## 能快到什么程度？
#
# 做对得 60 分，做快得另外 40 分。下面是参考答案的思路，一步一个想法，每一步都在 H200 上计过时：
#
# 1. **朴素**：所有规模用同一种 tile，用 `tl.dot`。只有一个 token 时，它在乘空行，而且只有 64 个程序在读整个权重。
# 2. **GEMV**：只有一个 token 时，逐元素相乘，再沿 $K$ 求一次和；每个程序只负责几列，这样程序才够多。
#    单独这一步比朴素的 tile 还慢：每一轮都在等那几个字节。
# 3. **宽读取**：沿 $K$ 相邻的元素放在同一个线程里，每次读 16 字节，同时有几个 tile 在途中。
# 4. **Split-K**：有几个 token 时，`tl.dot` 又划算了；`SPLIT_K` 个程序共同负责 $Y$ 的一个 tile，各算 $K$ 的一段，用原子操作合起来。
# 5. **一个 kernel 适用所有 $M$**：把权重放在前面，`tl.dot(w, x)`，就在做乘法的寄存器里按位转换；token 多时用高的 tile。由自动调优在几种形式里挑选。
#
# @ladder w8a16: m1_n4096_k4096 m16_n4096_k4096 m512_n4096_k4096
# | 所有规模都用 64 x 64 的 tile，用 `tl.dot` 相乘
# | 不用矩阵指令：一个程序算 X 的一行，逐元素相乘，每一轮沿 K 求一次和
# | 每次读 16 字节，四个 tile 在途中，最后才在线程之间求一次和
# | token 多于一个时再用 `tl.dot`，K 由 SPLIT_K 个程序分担；照顾 L2 的顺序；tile 自动调优
# | 一个 kernel 适用任意多个 token，权重放在来自寄存器的一边，按位转换
#
# 下面用三步走到那里：GEMV 加宽读取、split-K、权重放在前面。每一步都有一个要预测的数和一个检查单元。这些检查不计时：它们看的是启动参数，以及编译器为 H200 把你的 kernel 编译成了什么。
# 它们不计分，计分的是最后的计时。

# %% [markdown]
# ### Faster, step 1: a separate loop for one token
#
# Your kernel as it is has 64 columns per tile, 64 programs in all, and an H200 has 132 multiprocessors. `multiply_one` shows another
# form, for `BLOCK_M == 1`: element by element, without `tl.dot`. Do not sum inside the loop: accumulate the products of all
# iterations in a tile of fp32, and sum once, after the loop. And use `tl.range(..., num_stages=4)` to load ahead, which a loop
# without `tl.dot` does not do by itself.
#
# @speed w8a16: one

# %% [markdown] lang="zh"
# ### 加速第 1 步：只有一个 token 时，另用一种形式
#
# 现在的 kernel，tile 宽 64 列，一共 64 个程序，而 H200 有 132 个 SM。`multiply_one` 展示了另一种形式，用于 `BLOCK_M == 1`：逐元素相乘，不用 `tl.dot`。在循环里先不求和：把各轮的乘积留在一个 fp32 的 tile 里，
# 循环之后再求一次和；并用 `tl.range(..., num_stages=4)` 让读取提前发出：没有 `tl.dot` 的循环不会自动这样做。
#
# @speed w8a16: one | 权重共 16,777,216 字节。完成这一步之后，1 个 token 时，你的每个程序要读其中多少字节？

# %% solution="w8a16_faster_one"
bytes_each = ...
### BEGIN SOLUTION
bytes_each = 16777216 // 512
### END SOLUTION
predict("w8a16", "one", bytes_each)

# %% test="w8a16_faster_one_check"
check("w8a16", speed="one")

# %% [markdown]
# ### Faster, step 2: a few tokens, K split
#
# With 16 tokens `tl.dot` pays again, if the tile has 16 rows and not 64. Then there are too few tiles: `SPLIT_K` programs share one.
#
# @speed w8a16: split

# %% [markdown] lang="zh"
# ### 加速第 2 步：有几个 token 时，切开 K
#
# 有 16 个 token 时，`tl.dot` 又划算了，只要 tile 是 16 行而不是 64 行。这样 tile 太少：让 `SPLIT_K` 个程序共同负责一个。
#
# @speed w8a16: split | 16 个 token、N = K = 4096、tile 为 16 行时，用程序最多的那个 config，一次启动会有几个程序？

# %% solution="w8a16_faster_split"
programs = ...
### BEGIN SOLUTION
programs = 4096 // 64 * 8
### END SOLUTION
predict("w8a16", "split", programs)

# %% test="w8a16_faster_split_check"
check("w8a16", speed="split")

# %% [markdown]
# ### Faster, step 3: many tokens, the weight first
#
# wgmma may take its first operand from registers, its second only from shared memory. The converted weight has twice the bytes of the stored one,
# and as the second operand it is written to shared memory in every iteration.
#
# In that operand lane t of a warp holds two neighbours along k of row t // 4, as drawn in step 5 of `w4a16.ipynb`: here two bytes, one weight each.
#
# @speed w8a16: registers

# %% [markdown] lang="zh"
# ### 加速第 3 步：token 多时，把权重放在前面
#
# wgmma 的第一个操作数可以来自寄存器，第二个只能来自共享内存。转换后的权重，字节数是存储时的两倍；作为第二个操作数，每轮循环都要写进共享内存。
#
# 在第一个操作数里，warp 的 lane t 持有第 t // 4 行沿 k 相邻的两个数，见 `w4a16.ipynb` 第 5 步的图；这里是两个字节，各是一个权重。
#
# @speed w8a16: registers | 以你现在的 kernel，一个程序在循环的一轮里往共享内存写多少字节？

# %% solution="w8a16_faster_registers"
stored = ...
### BEGIN SOLUTION
stored = 0  # this kernel stores none; before the step it was BLOCK_N * BLOCK_K * 2
### END SOLUTION
predict("w8a16", "registers", stored)

# %% test="w8a16_faster_registers_check"
check("w8a16", speed="registers")

# %% [markdown]
# ### Against the clock
#
# With 512 tokens no kernel can be much faster than cuBLAS: the products are fp16 either way.

# %% [markdown] lang="zh"
# ### 实测计时
#
# 512 个 token 时，谁也不可能比 cuBLAS 快多少：反正做的都是 fp16 乘法。

# %% test="w8a16_speed" points=40
check_speed("w8a16")

# %% [markdown]
# ## Questions
#
# The first four have numbers of your own, derived from your name, and are marked automatically. Write your name once, as in your class
# list. An answer is a number, or arithmetic such as `2 * 3 / 4`; the cell below says whether it is right, and if not, what to look
# at.

# %% [markdown] lang="zh"
# ## 思考题
#
# 前四题的数字因人而异，由你的名字抽出，并且自动批改。请先把名字写一次，与班级名单上的写法一致。答案是一个数，或者 `2 * 3 / 4`
# 这样的算式；下面的检查单元会告诉你对不对，不对时该看哪里。

# %% solution="w8a16_student"
student = ""
### BEGIN SOLUTION
student = "Ada Lovelace"
### END SOLUTION

# %% [markdown]
# **1. Bytes that must move**

# %% [markdown] lang="zh"
# **1. 至少要搬运多少字节**

# %% solution="w8a16_answer_bytes"
ask("w8a16", "bytes")
w8a16_bytes = None  # MB
### BEGIN SOLUTION
w8a16_bytes = (2 * 4 * 2048 + 4096 * 2048 + 2 * 4096 + 2 * 4 * 4096) / 1e6
### END SOLUTION

# %% test="w8a16_question_bytes" points=2
check_answer("w8a16", "bytes")

# %% [markdown]
# **2. What is there to gain?**

# %% [markdown] lang="zh"
# **2. 最多能快多少**

# %% solution="w8a16_answer_gain"
ask("w8a16", "gain")
w8a16_gain = None  # times
### BEGIN SOLUTION
compute = 2 * 1024 * 8192 * 4096 / 900e6
memory16 = (2 * 1024 * 4096 + 2 * 8192 * 4096 + 2 * 1024 * 8192) / 3e6
memory8 = (2 * 1024 * 4096 + 8192 * 4096 + 2 * 1024 * 8192) / 3e6
w8a16_gain = max(memory16, compute) / max(memory8, compute)
### END SOLUTION

# %% test="w8a16_question_gain" points=2
check_answer("w8a16", "gain")

# %% [markdown]
# **3. The bytes of the scales**

# %% [markdown] lang="zh"
# **3. scale 占多少字节**

# %% solution="w8a16_answer_overhead"
ask("w8a16", "overhead")
w8a16_overhead = None  # KB
### BEGIN SOLUTION
w8a16_overhead = 2 * 3072 * 2048 / 32 / 1e3
### END SOLUTION

# %% test="w8a16_question_overhead" points=1
check_answer("w8a16", "overhead")

# %% [markdown]
# **4. One scale for two channels**

# %% [markdown] lang="zh"
# **4. 两个通道共用一个 scale**

# %% solution="w8a16_answer_step"
ask("w8a16", "step")
w8a16_step = None
### BEGIN SOLUTION
w8a16_step = 6.3 / 127
### END SOLUTION

# %% test="w8a16_question_step" points=1
check_answer("w8a16", "step")

# %% [markdown]
# **5. A group of 128.** Suppose the scales are given for each 128 elements of a channel. Your loop takes steps of `BLOCK_K = 64`. What changes in
# the kernel, and what does it cost?

# %% [markdown] lang="zh"
# **5. 128 个一组。** 假设每个通道每 128 个元素有一个 scale，而你的循环每步走 `BLOCK_K = 64`。kernel 要改什么，代价是什么？

# %% [markdown] answer="w8a16_question_groups" points=2
# The scale is now constant only within a group, so it leaves the sum over a group and not the sum over $K$. Either each step multiplies its product
# by the scales of its group and adds that to the accumulator, `acc += tl.dot(x, w) * s`, which is one multiplication for each element of the tile of $Y$
# in every step and a load of scales; or the weights are scaled before the product, one multiplication for each weight, and $q s$ is rounded to fp16.

# %% [markdown] lang="zh"
# 现在 scale 只在一组之内不变，所以只能提到这一组的求和号外面，不能提到整个 $K$ 的求和号外面。要么每一步把乘积乘上这一组的 scale 再累加，
# 即 `acc += tl.dot(x, w) * s`，每一步 $Y$ 的 tile 里每个元素多一次乘法，还要读 scale；要么在乘法之前给权重乘 scale，每个权重一次乘法，
# 而且 $q s$ 要舍入到 fp16。

# %% [markdown]
# **6. Half of the bytes, half of the time?** With one token your kernel moves half of the bytes of cuBLAS fp16. Name two reasons why it may take more than
# half of its time.

# %% [markdown] lang="zh"
# **6. 字节减半，时间也减半吗？** 只有一个 token 时，你的 kernel 搬运的字节是 cuBLAS fp16 的一半。说出两个理由，为什么它用的时间可能超过一半。

# %% [markdown] answer="w8a16_question_half" points=2
# Part of the time does not shrink with the bytes: the launch, the first loads until memory answers, the sum at the end. Fewer bytes are also in
# flight unless each program asks further ahead, so memory may not be kept busy. And each weight now costs instructions besides its product: it is taken out of its word
# and converted.

# %% [markdown] lang="zh"
# 有一部分时间不随字节减少：启动、最初几次读取等待内存应答、最后的求和。字节少了，在途的字节也少，除非每个程序提前读得更远，否则内存可能喂不饱。
# 而且每个权重除了乘法还要多花指令：从字里取出来，再转换。

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.

# %% [markdown] lang="zh"
# ## 做完了？
#
# 保存这个 notebook。`make grade SUBMISSION=notebooks/zh` 读取保存的文件，给出的结果与上面各单元相同。
