# %% [markdown]
# # W8A8: products of small integers
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}, \qquad q_{mk} = \mathrm{clamp}\big(\mathrm{round}(x_{mk} / s_m), -128, 127\big)$$
#
# - The weight arrives as int8: $r$, with one scale $t_n$ for each output channel. It was quantised once, beforehand.
# - The activations arrive as fp16. **Your kernel** quantises them to int8: $q$, with one scale $s_m$ for each token.
# - The sum is over integers, so it runs on the int8 tensor cores, whose peak rate is twice that of fp16, and it is exact: a product is
#   at most $2^{14}$, and int32 holds every sum of fewer than $2^{17} = 131072$ of them without overflow.
#
# This is **dynamic** quantisation: a token's scale comes from that token, while the model runs. **Static** quantisation fixes the
# scales beforehand, from sample inputs; finding them is called **calibration**. It saves the pass over $X$ that finds the maxima, but
# inputs unlike the samples are clamped.
#
# Quantising and rescaling are **fused** into the product: the int8 copy of $X$ and the int32 sums live in registers and
# shared memory, and never travel to DRAM and back.
#
# You write one Triton kernel, `W8A8_MM`. We get there in six small steps, with what the opening's warm-ups taught.

# %% [markdown] lang="zh"
# # W8A8：小整数的乘积
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}, \qquad q_{mk} = \mathrm{clamp}\big(\mathrm{round}(x_{mk} / s_m), -128, 127\big)$$
#
# - 权重传进来时已经是 int8：$r$，每个输出通道一个 scale $t_n$。这件事早就做好了，而且只做一次。
# - 激活传进来时是 fp16。**你的 kernel** 把它们变成 int8：$q$，每个 token 一个 scale $s_m$。
# - 求和在整数上进行，所以用的是 int8 的 Tensor Core，峰值速率是 fp16 的两倍，而且结果精确：一个乘积最大是 $2^{14}$，只要少于 $2^{17} = 131072$ 项，和就放得进 int32，不会溢出。
#
# 这叫**动态**量化：一个 token 的 scale 由这个 token 自己决定，在模型运行时求出。**静态**量化则事先用样本输入把 scale 定下来；
# 确定这些 scale 的过程叫**校准**（calibration）。它省去了为求最大值而把 $X$ 读一遍的开销，但遇到与样本不相像的输入，就会被钳位。
#
# 量化和反量化都**融合**在矩阵乘里：$X$ 的 int8 副本和 int32 的和只存在于寄存器和共享内存中，不必写到 DRAM 再读回来。
#
# 你要写一个 Triton kernel：`W8A8_MM`。我们用 opening 的小练习里学到的东西，分六小步来完成它。

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## What quantising does to a token
#
# One row of $X$ and its 256 levels:

# %% [markdown] lang="zh"
# ## 量化对一个 token 做了什么
#
# $X$ 的一行，以及它的 256 个量化级：

# %%
torch.manual_seed(0)
x = torch.randn(32, 256)
scale = x.abs().amax(dim=1) / 127
pictures.quantisation(x[0], float(scale[0]), name="one token")

# %% [markdown]
# The scale is an input of the kernel, and it may be too small. Then values beyond 127 pile up at the ends. That is what the clamp is
# for:

# %% [markdown] lang="zh"
# scale 是 kernel 的输入，传进来的值有可能太小。这时超出 127 的值会堆在两端。钳位就是为此而设的：

# %%
pictures.quantisation(x[0], 0.4 * float(scale[0]), name="a scale too small")

# %% [markdown]
# ## What sharing a scale costs
#
# Why a scale for each token and each output channel, and not just two numbers, one for $X$ and one for $W$? Here one token and one channel
# are thirty times as large as the others. The next cell quantises both matrices either way and multiplies; predict the order of the
# four lines, and which of the two errors differs more:

# %% [markdown] lang="zh"
# ## 共用一个 scale 的代价
#
# 为什么每个 token、每个输出通道各要一个 scale，而不是 $X$、$W$ 各一个数？这里有一个 token 和一个通道，是其余的三十倍大。
# 下一个单元用两种办法量化两个矩阵再相乘；先预测：四行谁大谁小，两种误差里哪一种相差更多：

# %%
def to_int8_and_back(matrix, shared):
    """What int8 keeps of a matrix, with one scale (per tensor) or one for each row (per token, per channel)."""
    s = (matrix.abs().max() if shared else matrix.abs().amax(dim=1, keepdim=True)) / 127
    return (matrix / s).round().clamp(-128, 127) * s


def lost(y, exact):
    """Norm of the error, over the norm of what is exact."""
    return float((y - exact).norm() / exact.norm())


x, w = torch.randn(32, 256), torch.randn(64, 256)
x[5], w[7] = 30 * x[5], 30 * w[7]  # the outliers
exact, usual = x @ w.T, (torch.arange(32) != 5)[:, None] & (torch.arange(64) != 7)
for x_shared, w_shared in ((True, True), (True, False), (False, True), (False, False)):
    y = to_int8_and_back(x, x_shared) @ to_int8_and_back(w, w_shared).T
    name = f"X per {'tensor' if x_shared else 'token'}, W per {'tensor' if w_shared else 'channel'}"
    print(f"{name}: error of Y {lost(y, exact):.2%}, of Y without the outliers' row and column {lost(y[usual], exact[usual]):.2%}")

# %% [markdown]
# The norm of all of $Y$ is mostly that of one element, where the large token meets the large channel, and these two are quantised well
# either way. So the first number hides most of the damage. The second shows who pays: all the others, whose scale is thirty times too
# large for them. A scale of its own costs a row four bytes.

# %% [markdown] lang="zh"
# 整个 $Y$ 的范数主要来自一个元素，即那个大的 token 遇上那个大的通道的地方，而这两者怎样量化都不差；所以第一个数掩盖了大部分损失。
# 第二个数说明谁在吃亏：其余所有的行和列，它们的 scale 大了三十倍。让每一行有自己的 scale，代价只是每行四个字节。

# %% [markdown]
# ## The layer around your kernel
#
# This is given. Read it once: it shows which arguments your kernel gets. `naive` computes the same result in plain PyTorch, slowly.
# The layer computes `input_scale` before it calls your kernel. The opening's warm-up `scales` was a kernel for that. So this lab's
# times do not include it, while a library that finds the scales itself needs time for it. Keep that in mind when you compare: on an
# H200 and with 4096 tokens the solution took @bench{time_us("w8a8", "m4096_n4096_k4096"):.0f} us with the scales given, GemLite's
# dynamic kernel @bench{time_us("w8a8", "m4096_n4096_k4096", "GemLite A8W8 dynamic"):.0f} us and torchao's
# @bench{time_us("w8a8", "m4096_n4096_k4096", "torchao int8 dynamic, torch.compile"):.0f} us with the scales found, and PyTorch's
# product alone, with X quantised beforehand and nothing rescaled,
# @bench{time_us("w8a8", "m4096_n4096_k4096", "torch._int_mm alone"):.0f} us.

# %% [markdown] lang="zh"
# ## 包在 kernel 外面的层
#
# 这部分已经写好。请读一遍：它说明你的 kernel 是怎样被调用的。`naive` 用普通的 PyTorch 算出同样的结果，慢，但是正确。
# 层在调用你的 kernel 之前就算好了 `input_scale`；opening 的小练习 `scales` 就是做这件事的 kernel。
# 所以本实验的计时不包括它，而自己求 scale 的库，要把这部分算进自己的时间。
# 比较时请记住这一点：在 H200 上、4096 个 token 时，参考答案在 scale 已经给定的情况下用了 @bench{time_us("w8a8", "m4096_n4096_k4096"):.0f} us；
# 自己求 scale 的，GemLite 的动态 kernel 用了 @bench{time_us("w8a8", "m4096_n4096_k4096", "GemLite A8W8 dynamic"):.0f} us，torchao 用了 @bench{time_us("w8a8", "m4096_n4096_k4096", "torchao int8 dynamic, torch.compile"):.0f} us；
# 而只算 PyTorch 的矩阵乘，X 事先量化好，结果也不反量化，用了 @bench{time_us("w8a8", "m4096_n4096_k4096", "torch._int_mm alone"):.0f} us。

# %%
# include solutions/w8a8.py: row_scales .. launch

# %% [markdown]
# ## Step 1: load a tile
#
# A tile is addressed by its row numbers, its column numbers and a stride for each axis.
# $M$ is any number of tokens and tiles have fixed sizes, so each axis also has an end. What lies beyond it must not be
# read, and must count as zero in the sum. You wrote this function in the opening: copy it.

# %% [markdown] lang="zh"
# ## 第 1 步：读取一个 tile
#
# 一个 tile 的地址由行号、列号和每个轴的 stride 决定。$M$ 是 token 数，可以是任意值，而 tile 的大小是固定的，所以每个轴还有一个终点。
# 终点以外的位置不许读取，在求和时必须算作零。这个函数你在 opening 里写过：抄过来即可。

# %% solution="w8a8_step_load"
@triton.jit
def load_tile(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """The tile [len(rows), len(columns)] of a matrix, with zeros beyond the end of either axis."""
    ### BEGIN SOLUTION
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    at = rows[:, None] * stride_row + columns[None, :] * stride_column
    return tl.load(ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="w8a8_step_load_check"
check("w8a8", step="load")

# %% [markdown]
# ## Step 2: quantise it
#
# Divide each row by its scale, round to the nearest integer, clamp, convert.
#
# `.to(tl.int8)` alone truncates, which is not rounding to nearest. There is no `tl.round`; `tl.floor(v + 0.5)` is one way to the
# nearest integer. It rounds ties up, `torch.round` rounds them to even; both are accepted. `tl.minimum` and `tl.maximum` clamp. Clamp
# *before* you convert: a float that does not fit int8 is an **overflow**, and the result of its conversion is undefined. On today's
# GPUs 128 often becomes -128.

# %% [markdown] lang="zh"
# ## 第 2 步：量化
#
# 每一行除以它的 scale，就近取整，钳位，再转换类型。
#
# 只用 `.to(tl.int8)` 会直接截断小数部分，那不是就近取整。Triton 没有 `tl.round`；`tl.floor(v + 0.5)` 是一种就近取整的办法：恰好在两个整数正中间时它向上取，`torch.round` 则取偶数；两种都算对。
# 钳位用 `tl.minimum` 和 `tl.maximum`。要**先**钳位，再转换：int8 放不下的浮点数叫**溢出**（overflow），转换的结果没有定义；
# 在今天的 GPU 上，128 往往变成 -128。

# %% solution="w8a8_step_quantise"
@triton.jit
def quantise_tile(x, scale):
    """x fp16 [rows, columns], scale fp32 [rows] -> int8 [rows, columns]."""
    ### BEGIN SOLUTION
    nearest = tl.floor(x.to(tl.float32) / scale[:, None] + 0.5)
    return tl.minimum(tl.maximum(nearest, -128.0), 127.0).to(tl.int8)
    ### END SOLUTION

# %% test="w8a8_step_quantise_check"
check("w8a8", step="quantise")

# %% [markdown]
# ## Step 3: one dot
#
# `tl.dot` multiplies two tiles and adds to a third. int8 operands need an int32 accumulator, and their product is always int32;
# `out_dtype=tl.int32` makes that visible.

# %% [markdown] lang="zh"
# ## 第 3 步：一次 dot
#
# `tl.dot` 把两个 tile 相乘，再加到第三个上。int8 操作数需要 int32 累加器，它们的乘积总是 int32；写上 `out_dtype=tl.int32` 是给读者看的。

# %% solution="w8a8_step_dot"
@triton.jit
def multiply_tiles(q, w, acc):
    """q int8 [rows, depth], w int8 [depth, columns], acc int32 [rows, columns] -> acc + q @ w, int32."""
    ### BEGIN SOLUTION
    return tl.dot(q, w, acc, out_dtype=tl.int32)
    ### END SOLUTION

# %% test="w8a8_step_dot_check"
check("w8a8", step="dot")

# %% [markdown]
# ## Step 4: the loop
#
# Now loop along $K$, `BLOCK_K` columns of $X$ at a time, and add up, as in the opening's `multiply`: an accumulator that starts at
# zero (int32 here), and a loop. Call your own functions from the steps above.
#
# The weight arrives as `[K, N]`: row `k`, column `n`. Its strides are parameters like those of $X$, and `load_tile` loads
# it as well: its rows end at `K`, its columns at `N`. `K` may end inside the last tile.

# %% [markdown] lang="zh"
# ## 第 4 步：循环
#
# 现在沿 $K$ 走一遍，每次取 $X$ 的 `BLOCK_K` 列，逐次累加，与 opening 里的 `multiply` 一样：总和从零开始（这里是 int32），接着是一个循环。
# 循环里调用前面几步你自己写的函数。
#
# 权重传进来的形状是 `[K, N]`：第 `k` 行，第 `n` 列。它的 stride 和 $X$ 的一样是参数，所以也用 `load_tile` 读取：行到 `K` 为止，列到 `N` 为止。
# 最后一个 tile 还没走完，`K` 就可能到头了。

# %% solution="w8a8_step_loop"
@triton.jit
def accumulate(
    x_ptr, qweight_ptr, input_scale, rows, columns, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The integer sum of one tile: int32 [BLOCK_M, BLOCK_N]. input_scale is fp32 [BLOCK_M]."""
    ### BEGIN SOLUTION
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = load_tile(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
        w = load_tile(qweight_ptr, depth, columns, K, N, stride_wk, stride_wn)
        acc = multiply_tiles(quantise_tile(x, input_scale), w, acc)
    return acc
    ### END SOLUTION

# %% test="w8a8_step_loop_check"
check("w8a8", step="loop")

# %% [markdown]
# ## Step 5: the epilogue
#
# Both scales come in here, once for each element of $Y$: $s_m$ goes down the rows, $t_n$ across the columns.
# The sum is still in registers. Mind the order: fp16 ends at 65504, and an integer sum is soon larger than that.

# %% [markdown] lang="zh"
# ## 第 5 步：收尾（epilogue）
#
# 两个 scale 都在这里乘上，$Y$ 的每个元素各乘一次：$s_m$ 随行变化，$t_n$ 随列变化。
# 此时和还在寄存器里。注意先后顺序：fp16 最大只到 65504，整数的和很容易就超过它。

# %% solution="w8a8_step_epilogue"
@triton.jit
def rescale(acc, input_scale, weight_scale):
    """acc int32 [rows, columns], scales fp32 [rows] and [columns] -> fp16 [rows, columns]."""
    ### BEGIN SOLUTION
    return (acc.to(tl.float32) * input_scale[:, None] * weight_scale[None, :]).to(tl.float16)
    ### END SOLUTION

# %% test="w8a8_step_epilogue_check"
check("w8a8", step="epilogue")

# %% [markdown]
# ## Step 6: store
#
# The counterpart of `load_tile`: the same address computation, the same mask.

# %% [markdown] lang="zh"
# ## 第 6 步：写回
#
# 与 `load_tile` 对应的另一头：地址的算法相同，mask 也相同。

# %% solution="w8a8_step_store"
@triton.jit
def store_tile(y_ptr, y, rows, columns, M, N, stride_ym, stride_yn):
    """Stores y, fp16 [len(rows), len(columns)], where rows are below M and columns below N."""
    ### BEGIN SOLUTION
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn, y, mask=inside)
    ### END SOLUTION

# %% test="w8a8_step_store_check"
check("w8a8", step="store")

# %% [markdown]
# ## The kernel
#
# You have all the pieces. Put together unchanged, they are a kernel worth 60 points:
#
# 1. Which tile of $Y$ is this program's? `pid = tl.program_id(0)` counts tiles row by row, and `tl.cdiv(N, BLOCK_N)` tiles
#    make a row of tiles: the tile's row is `pid // tl.cdiv(N, BLOCK_N)`, its column `pid % tl.cdiv(N, BLOCK_N)`, as in
#    the opening's `multiply`. From them, `rows` and `columns`.
# 2. The scales of these rows and columns: two loads of one axis, masked at `M` and `N`, with `other=1.0` (to avoid a division by 0).
# 3. `accumulate(...)`, then `rescale(...)`, then `store_tile(...)`.
#
# Write this in place of `pass`. The other `# YOUR CODE HERE`, below `CONFIGS`, is for more configs, later; leave it empty now. Leave
# `SPLIT_K` alone, too: while it is 1 it changes nothing. One habit avoids trouble with huge tensors: convert row and column numbers
# with `.to(tl.int64)` before you multiply them by a stride. Later, for speed, you will want to take the pieces apart again.

# %% [markdown] lang="zh"
# ## 完整的 kernel
#
# 各部分都齐了。不用改写，把它们拼起来，就是一个值 60 分的 kernel：
#
# 1. 这个程序负责 $Y$ 的哪个 tile？`pid = tl.program_id(0)` 逐行给 tile 编号，一行有 `tl.cdiv(N, BLOCK_N)` 个 tile：tile 的行号是 `pid // tl.cdiv(N, BLOCK_N)`，列号是 `pid % tl.cdiv(N, BLOCK_N)`，和 opening 里的 `multiply` 一样。由此得到 `rows` 和 `columns`。
# 2. 这些行和列的 scale：两次一维的读取，mask 分别以 `M` 和 `N` 为界，并加上 `other=1.0`（填 0 的话，量化时就会除以 0）。
# 3. 先 `accumulate(...)`，再 `rescale(...)`，最后 `store_tile(...)`。
#
# 它们写在 `pass` 的位置。`CONFIGS` 下面的另一处 `# YOUR CODE HERE` 是留给以后加 config 的，现在空着。`SPLIT_K` 也先不要动：它为 1 时不起任何作用。
# 有一个习惯可以避免超大张量带来的麻烦：行号和列号先 `.to(tl.int64)`，再与 stride 相乘。
# 以后为了速度，你会想把这些部分重新拆开。

# %% solution="w8a8_kernel"
# include solutions/w8a8.py: CONFIGS .. W8A8_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.
# For wrong numbers it shows where they are, a picture of the wrong tiles, and often the likely mistake.

# %% [markdown] lang="zh"
# 这就是评分程序。没有 GPU 时大约要十秒。结果不对时，它会给出错误的位置、标出错误 tile 的图，往往还会指出可能的原因。

# %% test="w8a8_correctness" points=60
check("w8a8")

# %% [markdown]
# ## Your kernel in its layer
#
# A small linear layer, quantised, with your kernel inside:

# %% [markdown] lang="zh"
# ## 把 kernel 放进层里
#
# 一个小的线性层，量化之后，用的就是你的 kernel：

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(128, 64, bias=False)
layer = QuantizedLinear_w8a8.from_linear(linear).to(device)
x = torch.randn(5, 128, device=device).half()
y, exact = layer(x).double().cpu(), x.double().cpu() @ linear.weight.detach().double().T
print(f"relative error of this layer with 8 bits: {float((y - exact).norm() / exact.norm()):.2%}")

# %% [markdown]
# ## What your kernel does to memory
#
# The interpreter knows every address that your kernel loads and stores. The next cells run it on a few tiles and count. Nothing is graded.
#
# First, which program computes which tile: each tile of $Y$ shows the number of its program, in the order in which a GPU starts them.

# %% [markdown] lang="zh"
# ## 你的 kernel 怎样访问内存
#
# 解释器知道你的 kernel 读写的每一个地址。下面几个单元让它在少量 tile 上运行，并统计次数。这里不计分。
#
# 先看哪个程序算哪个 tile：$Y$ 的每个 tile 上标着负责它的程序的编号，编号的顺序就是 GPU 启动程序的顺序。

# %%
from grader.notebook import missed_in_l2, show_memory, show_order, show_programs, show_warp
from grader.notebook.trial import lock, measured, reveal

show_programs("w8a8")

# %% [markdown]
# Predict before you run the next cell: $Y$ is four by four tiles. How often is each element of $X$ loaded, how often each of the weight?
# Program 5 is drawn; try another number, or `sizes=(M, N, K)`, or `config=1`.

# %% [markdown] lang="zh"
# 运行下一个单元之前先预测：$Y$ 有四乘四个 tile。$X$ 的每个元素要读取多少次？权重的每个元素呢？
# 图中画的是 5 号程序；可以换一个编号试试，也可以试试 `sizes=(M, N, K)` 或 `config=1`。

# %%
show_memory("w8a8", program=5)

# %% [markdown]
# Programs in one row of tiles load the same rows of $X$, those in one column of tiles the same columns of the weight. **Larger tiles
# load less**: with twice the columns in a tile, $X$ is loaded half as often.
#
# The threads of a warp load together, and memory comes in *sectors* of 32 bytes. Neighbouring threads should ask for neighbouring bytes:

# %% [markdown] lang="zh"
# 同一行 tile 的程序读取 $X$ 的相同的行，同一列 tile 的程序读取权重的相同的列。**tile 越大，读取越少**：tile 的列数加倍，$X$ 的读取次数就减半。
#
# 一个 warp 的线程一起读取，而内存以 32 字节的 *sector*（扇区）为单位传送。相邻的线程应当访问相邻的字节，这就是合并访问：

# %%
show_warp("w8a8")

# %% [markdown]
# Does it matter which tile comes first? Programs that run at the same time share what is in L2. This models a small GPU, the T4:

# %% [markdown] lang="zh"
# 先算哪个 tile 有关系吗？同时运行的程序共享 L2 里的数据。这里模拟的是一块小 GPU，即 T4：

# %%
show_order("w8a8", gpu="T4")

# %% [markdown]
# On a GPU whose L2 holds everything (`gpu="H100"`) the order does not matter here. Numbering the tiles in another order is called a
# *swizzle*: `group` rows of tiles at a time, column after column within the group, as the published kernels do.
#
# **Predict.** On the model's T4, with your kernel's first config and `group=4`: the bytes that miss L2, divided by those that miss with
# the row-by-row order. The picture above has another group, of 8.

# %% [markdown] lang="zh"
# 如果 GPU 的 L2 放得下全部数据（`gpu="H100"`），顺序在这里就没有影响。按另一种顺序给 tile 编号，叫做 *swizzle*：每次取 `group` 行
# tile 作为一组，组内一列一列地算，公开发表的 kernel 都是这样做的。
#
# **预测。** 在模拟的 T4 上，用你的 kernel 的第一个 config，`group=4`：L2 未命中的字节数，除以逐行时未命中的字节数，是多少？
# 上图中有另一种分组，每组 8 行。

# %% solution="w8a8_swizzle_prediction"
guess = None  # 1.0: as many bytes miss as row by row
### BEGIN SOLUTION
guess = 0.5
### END SOLUTION
lock("swizzle", guess, "times the bytes that miss row by row")

# %% [markdown]
# Now write it. The last group may have fewer rows. The cell below says what your order misses. It depends on the config: with tiles so
# small that L2 holds the whole problem of the model, no order gains anything, and some lose.

# %% [markdown] lang="zh"
# 现在把它写出来。最后一组的行数可能不足。下面的单元会告诉你，按你的顺序有多少字节未命中。结果与 config 有关：如果 tile 很小，
# L2 放得下模型里的整个问题，那么换什么顺序都得不到好处，有的还会更差。

# %% solution="w8a8_swizzle"
def swizzle_tile(pid, tiles_m, tiles_n, group=4):
    """Row and column of the tile of Y that program `pid` makes."""
    ...
    ### BEGIN SOLUTION
    first = pid // (group * tiles_n) * group
    rows = min(group, tiles_m - first)
    column, row = divmod(pid % (group * tiles_n), rows)
    return first + row, column
    ### END SOLUTION

# %%
missed = missed_in_l2("w8a8", gpu="T4", order=swizzle_tile)
reveal("swizzle").against(missed["swizzle_tile"] / missed["row by row"])
show_order("w8a8", gpu="T4", order=swizzle_tile)

# %% [markdown]
# A language model explained this function as follows: *"Swizzling merges neighbouring tiles into one larger tile (1), so every program
# loads fewer bytes (2). It also makes each warp's loads coalesced (3)."*
#
# Judge each of the three: true or false, and which picture shows it? Put the order into your kernel (`pid_m, pid_n = ...` from
# `tl.program_id(0)`), run `show_programs`, `show_memory` and `show_warp` again, and compare. Only then open the answer.
#
# <details>
# <summary>Answer</summary>
#
# 1. False: `show_programs` has as many tiles as before, of the same size; only their numbers have moved.
# 2. False: in `show_memory` a program loads the rows of $X$ and the columns of the weight that its tile needs, whatever its number.
# 3. False: in `show_warp` a warp asks for the same sectors. Its loads depend on strides and layout within a tile.
#
# What changes is *when* programs ask. Those that run together now need `group` row tiles of $X$ and a few columns of the weight,
# instead of one row tile and all columns. So more of what they ask for is already in L2: fewer bytes come from DRAM, and none fewer
# from L2.
#
# </details>

# %% [markdown] lang="zh"
# 一个语言模型这样解释这个函数：“swizzle 把相邻的 tile 合并成一个更大的 tile（1），所以每个程序读取的字节更少（2）；
# 它还让每个 warp 的访问合并起来（3）。”
#
# 请逐条判断：对还是错？哪张图可以说明？把这个顺序写进你的 kernel（由 `tl.program_id(0)` 算出 `pid_m, pid_n`），
# 再运行一遍 `show_programs`、`show_memory` 和 `show_warp`，对照一下。然后再打开答案。
#
# <details>
# <summary>答案</summary>
#
# 1. 错：`show_programs` 里的 tile 和原来一样多、一样大，只是编号换了位置。
# 2. 错：看 `show_memory`，一个程序读的是它的 tile 所需要的 $X$ 的行和权重的列，与编号无关。
# 3. 错：看 `show_warp`，一个 warp 要的还是同样的 sector；怎样合并访问，取决于 tile 内部的 stride 和布局。
#
# 变的是程序**什么时候**去要。同时运行的程序现在需要 `group` 行 tile 的 $X$ 和权重的几列，而不是一行 tile 和全部的列。
# 所以它们要的数据更多已经在 L2 里：从 DRAM 来的字节少了，从 L2 来的一个也没少。
#
# </details>

# %% [markdown]
# ## How fast can it get?
#
# A correct kernel is worth 60 points, a fast one the other 40. This is the path, one idea per step, with the points that each step's
# own kernel earns:
#
# @ladder w8a8: m16_n4096_k4096 m512_n4096_k4096 m4096_n4096_k4096
#
# Each step below has one change, one number to predict and one cell that checks. Run its first cell with the dots as they are: if your
# kernel has already taken the step, it says so, and there is nothing to predict. If not, put your number in their place and check; then
# change the kernel above, run its cell, and check again. A wrong prediction costs nothing, and a surprise teaches most.
#
# The checks measure no time. They look at what the compiler made of your kernel for an H200 (the instructions of one iteration of the
# loop, the registers, the shared memory), at the grid, and at the bytes that the interpreter counts on a small problem. They are
# worth no points; the clock at the end is.

# %% [markdown] lang="zh"
# ## 能有多快？
#
# 做对得 60 分，另外 40 分看速度。下面是一条路线，每一步只有一个想法，并列出每一步自己的 kernel 得多少分：
#
# @ladder w8a8: m16_n4096_k4096 m512_n4096_k4096 m4096_n4096_k4096
# | 照公式逐行写：量化 $X$ 的一个 tile，相乘，反量化，累加
# | 两个 scale 都移出求和，在收尾时只乘一次
# | 循环里不做除法，也不转换成整数
# | tile 的大小合乎任务，顺序照顾 L2
#
# 下面每一步都有一处改动、一个要预测的数和一个检查单元。先原样运行第一个单元，省略号不动：你的 kernel 已经做到的步骤会直接说明，不必预测。
# 否则把你的数写在省略号那里并检查；然后修改上面的 kernel，运行它所在的单元，再检查一次。猜错没有损失，而意料之外的结果最能让人学到东西。
#
# 这些检查不计时。它们看的是编译器为 H200 把你的 kernel 编译成了什么（循环一轮的指令、寄存器、共享内存），
# 还有 grid，以及解释器在一个小问题上统计出的字节数。检查不给分；给分的是最后的计时。

# %% [markdown]
# ### Faster, step 1: the scales leave the loop
#
# Both scales are constant along $K$, so they need not touch a partial sum. Let the accumulator be int32, and rescale once, after the
# loop. It looks like a big win: predict how much work it saves. It saves little time as long as something else in the loop is slower.
#
# @speed w8a8: epilogue

# %% [markdown] lang="zh"
# ### 加速第 1 步：scale 移出循环
#
# 两个 scale 沿 $K$ 都是常数，所以不必去乘部分和。让累加器保持 int32，在循环之后只反量化一次。
# 看上去收益很大：预测一下能省掉多少工作。不过，只要循环里还有别的东西更慢，计时上的收益就没有这么大。
#
# @speed w8a8: epilogue | K = 4096 时，做完这一步之后，一次启动里，$Y$ 的每个元素要把 int32 的和转成 fp32 几次？

# %% solution="w8a8_faster_epilogue"
rescales = ...
### BEGIN SOLUTION
rescales = 1  # once, after the loop; inside it would be K / BLOCK_K times
### END SOLUTION
predict("w8a8", "epilogue", rescales)

# %% test="w8a8_faster_epilogue_check"
check("w8a8", speed="epilogue")

# %% [markdown]
# ### Faster, step 2: no division in the loop
#
# The slower part is the division. Except for the last bit, $x / s$ is $x \cdot (1/s)$, and $1/s$ is the same for the whole row.
#
# @speed w8a8: reciprocal

# %% [markdown] lang="zh"
# ### 加速第 2 步：循环里不做除法
#
# 那个更慢的东西就是除法。除了最后一位可能不同，$x / s$ 就是 $x \cdot (1/s)$，而 $1/s$ 对整行都一样。
#
# @speed w8a8: reciprocal | 以你现在的 kernel，一个线程在循环的一轮里做几次除法？

# %% solution="w8a8_faster_reciprocal"
divisions = ...
### BEGIN SOLUTION
divisions = 0  # this kernel multiplies; one that divides does it BLOCK_M * BLOCK_K / threads times
### END SOLUTION
predict("w8a8", "reciprocal", divisions)

# %% test="w8a8_faster_reciprocal_check"
check("w8a8", speed="reciprocal")

# %% [markdown]
# ### Faster, step 3: cheap rounding
#
# `tl.floor` and the conversion to int8 run at a fraction of the rate of a multiply-add. There is a cheaper way: add
# $1.5 \cdot 2^{23}$. An fp32 number of that size has no bits left for a fraction, so the addition itself rounds to nearest, and
# the low byte of the result *is* the integer. Clamp $x/s$ before you add, while -128 and 127 still mean something. Then read the bits of
# the sum as an integer, with `.to(tl.int32, bitcast=True)`; a plain `.to` would convert its value, which is about 12 million.
#
# @speed w8a8: rounding

# %% [markdown] lang="zh"
# ### 加速第 3 步：便宜的取整
#
# `tl.floor` 和到 int8 的转换，速率只有乘加的几分之一。有一个更便宜的办法：加上 $1.5 \cdot 2^{23}$。这么大的 fp32 数已经没有位可以表示小数，
# 所以加法本身就完成了就近取整，结果的最低字节**就是**那个整数。钳位要在加之前对 $x/s$ 做，那时 -128 和 127 才有意义。
# 然后用 `.to(tl.int32, bitcast=True)` 把和的二进制位当作整数来读；普通的 `.to` 转换的是它的值，约一千二百万。
#
# @speed w8a8: rounding | 循环在 $X$ 的一个元素上会花几条浮点指令（类型转换也算）？

# %% solution="w8a8_faster_rounding"
instructions = ...
### BEGIN SOLUTION
instructions = 3  # a conversion, a multiply-add, and two clamps for two values at a time
### END SOLUTION
predict("w8a8", "rounding", instructions)

# %% test="w8a8_faster_rounding_check"
check("w8a8", speed="rounding")

# %% [markdown]
# ### Faster, step 4: wide tiles
#
# A value of $X$ is quantised again by every program that needs its row, one for each tile of columns. The wider the tile, the fewer
# such programs there are; but its accumulator has to fit in registers.
#
# @speed w8a8: tiles

# %% [markdown] lang="zh"
# ### 加速第 4 步：宽的 tile
#
# $X$ 的一个值，凡是用到它所在行的程序都要重新量化一遍，列方向有几个 tile，就有几个这样的程序。tile 越宽，这样的程序越少；
# 但它的和必须放得进寄存器。
#
# @speed w8a8: tiles | N = 4096 时，做完这一步之后，$X$ 的一个元素会在几个程序里量化？

# %% solution="w8a8_faster_tiles"
programs = ...
### BEGIN SOLUTION
programs = 4096 // 256
### END SOLUTION
predict("w8a8", "tiles", programs)

# %% test="w8a8_faster_tiles_check"
check("w8a8", speed="tiles")

# %% [markdown]
# ### Faster, step 5: few tokens: which operand has the rows?
#
# wgmma, the matrix instruction of Hopper, multiplies at least 64 rows of its first operand. With 16 tokens, $X$ does not have them,
# but the weight does: compute $Y^\top = W X^\top$.
#
# @speed w8a8: rows

# %% [markdown] lang="zh"
# ### 加速第 5 步：token 很少时，谁来凑够行数？
#
# wgmma 是 Hopper 的矩阵指令，它的第一个操作数至少有 64 行。只有 16 个 token 时，$X$ 没有这么多行。权重有：所以改算 $Y^\top = W X^\top$。
#
# @speed w8a8: rows | 16 个 token、N = K = 4096 时，以你现在的 kernel，每一次真正需要的乘加，Tensor Core 实际做了几次？

# %% solution="w8a8_faster_rows"
multiply_adds = ...
### BEGIN SOLUTION
multiply_adds = 1  # this kernel gives the rows to the weight; with BLOCK_M = 64 it would be 64 / 16
### END SOLUTION
predict("w8a8", "rows", multiply_adds)

# %% test="w8a8_faster_rows_check"
check("w8a8", speed="rows")

# %% [markdown]
# ### Faster, step 6: few tokens: work for every multiprocessor
#
# With 16 tokens $Y$ has few tiles, so most of the GPU idles. `SPLIT_K` programs share a tile, each takes a part of $K$, and
# `tl.atomic_add(ptrs, y, mask=...)` adds up their partial sums. $Y$ then arrives zeroed, and the zeroing is timed. With a `SPLIT_K` of
# 1 it is not zeroed, so keep the plain store for that: `if SPLIT_K == 1:` is decided for each config when it is compiled. Narrow tiles
# are the alternative.
#
# @speed w8a8: split

# %% [markdown] lang="zh"
# ### 加速第 6 步：token 很少时，让每个 SM 都有程序可运行
#
# 只有 16 个 token 时，$Y$ 的 tile 很少，GPU 大部分都闲着。让 `SPLIT_K` 个程序共用一个 tile，各算 $K$ 的一段，再用
# `tl.atomic_add(ptrs, y, mask=...)` 加到一起。这时 $Y$ 传进来就已清零，清零的时间也计入。`SPLIT_K` 为 1 时不会清零，所以那种情况保留普通的 store：
# `if SPLIT_K == 1:` 对每个 config 在编译时就定下来。另一个办法是用窄的 tile。
#
# @speed w8a8: split | 16 个 token、N = K = 4096 时，用程序最多的那个 config，一次启动会有几个程序？

# %% solution="w8a8_faster_split"
programs = ...
### BEGIN SOLUTION
programs = 4096 // 128 * 8
### END SOLUTION
predict("w8a8", "split", programs)

# %% test="w8a8_faster_split_check"
check("w8a8", speed="split")

# %% [markdown]
# ### Against the clock
#
# **Your levers:** configs (up to 16; the fastest right one counts), the loop body, the order of programs. The last row of the table
# does two more things: it clamps two fp16 values at a time, and loads the weight with a tensor descriptor. A swizzle, which orders
# the tiles of Y in groups so that more loads hit L2, was added in step 4 of the table and later removed: at these sizes the programs
# that run at the same time share their rows and columns anyway.

# %% [markdown] lang="zh"
# ### 看计时
#
# **你能调的有：** config（最多 16 个，取结果正确且最快的那个）、循环体、程序的顺序。除了上面这些步骤，表格最后一行还用了两个办法：
# 一次钳位两个 fp16 值，以及用 tensor descriptor 读取权重。swizzle 为了利用 L2 而把 Y 的 tile 分组处理；
# 它在表格的第 4 步加了进来，后来又去掉了：在这些大小下，同时运行的程序本来就共享行和列。

# %% test="w8a8_speed" points=40
check_speed("w8a8")

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

# %% solution="w8a8_student"
student = ""
### BEGIN SOLUTION
student = "Ada Lovelace"
### END SOLUTION

# %% [markdown]
# **1. Bytes that must move**

# %% [markdown] lang="zh"
# **1. 至少要搬运多少字节**

# %% solution="w8a8_answer_bytes"
ask("w8a8", "bytes")
w8a8_bytes = None  # MB
### BEGIN SOLUTION
w8a8_bytes = (2 * 24 * 5120 + 4096 * 5120 + 4 * (24 + 4096) + 2 * 24 * 4096) / 1e6
### END SOLUTION

# %% test="w8a8_question_bytes" points=2
check_answer("w8a8", "bytes")

# %% [markdown]
# **2. Arithmetic intensity**

# %% [markdown] lang="zh"
# **2. 算术强度**

# %% solution="w8a8_answer_intensity"
ask("w8a8", "intensity")
w8a8_intensity = None  # operations per byte
### BEGIN SOLUTION
w8a8_intensity = 2 * 1024 * 6144 * 3072 / (2 * 1024 * 3072 + 6144 * 3072 + 2 * 1024 * 6144)
### END SOLUTION

# %% test="w8a8_question_intensity" points=1
check_answer("w8a8", "intensity")

# %% [markdown]
# **3. How long can an exact sum be?**

# %% [markdown] lang="zh"
# **3. 求和最长能精确到多少项**

# %% solution="w8a8_answer_exact"
ask("w8a8", "exact")
w8a8_exact = None  # a whole number
### BEGIN SOLUTION
w8a8_exact = (2**19 - 1) // (2**7 * 2**6)
### END SOLUTION

# %% test="w8a8_question_exact" points=1
check_answer("w8a8", "exact")

# %% [markdown]
# **4. Quantised again**

# %% [markdown] lang="zh"
# **4. 重复量化**

# %% solution="w8a8_answer_times"
ask("w8a8", "times")
w8a8_times = None  # a whole number
### BEGIN SOLUTION
w8a8_times = 2048 // 32
### END SOLUTION

# %% test="w8a8_question_times" points=1
check_answer("w8a8", "times")

# %% [markdown]
# **5. When is once better?** Your kernel quantises an element of $X$ as often as question 4 says. When would a separate kernel that
# quantises $X$ once be better, and what would it cost?

# %% [markdown] lang="zh"
# **5. 什么时候只量化一次更好？** 第 4 题算出了你的 kernel 会把 $X$ 的一个元素量化多少次。什么情况下，用一个单独的 kernel 把 $X$ 只量化一次更好？代价是什么？

# %% [markdown] answer="w8a8_question_again" points=2
# A separate kernel quantises once, but it reads $2MK$ bytes, writes $MK$ that the product then reads
# (instead of $2MK$ of fp16), and it is one more launch. It pays with many tokens and a wide $N$, where quantising
# competes with the products; with few tokens the launch alone costs more than it saves.

# %% [markdown] lang="zh"
# 单独的 kernel 只量化一次，但它要读 $2MK$ 字节，写出 $MK$ 字节再由矩阵乘读入（代替 $2MK$ 字节的 fp16），还多一次启动。
# token 多、$N$ 大时，重复量化与乘法争抢时间，这样做划算；token 少时，光是多出来的一次启动就超过省下的时间。

# %% [markdown]
# **6. Scales.** Outliers sit in a few input channels, so a scale for each *column* of $X$ would quantise better.
# Why can this kernel not use one? What could be done to $X$ and $W$ beforehand to the same effect?

# %% [markdown] lang="zh"
# **6. scale。** 离群值集中在少数输入通道上，所以给 $X$ 的每一**列**一个 scale，量化误差会更小。
# 为什么这个 kernel 不能这样做？事先对 $X$ 和 $W$ 做什么处理，可以达到同样的效果？

# %% [markdown] answer="w8a8_question_scales" points=3
# With $x_{mk} = s_k q_{mk}$ the sum is $\sum_k s_k q_{mk} r_{nk}$: $s_k$ varies along the summed axis, cannot leave the
# sum, and would have to be multiplied into every product, which an integer matrix instruction cannot do. Beforehand one
# can divide column $k$ of $X$ by $s_k$ and multiply column $k$ of $W$ by it, since $XW^\top = (X D^{-1})(W D)^\top$: part of
# the outliers moves into the weight before either is quantised, and the usual per-token and per-channel scales do.

# %% [markdown] lang="zh"
# 设 $x_{mk} = s_k q_{mk}$，求和就成了 $\sum_k s_k q_{mk} r_{nk}$：$s_k$ 沿求和的轴变化，提不到求和号外面，只能乘进每一项，
# 而整数矩阵指令做不到这一点。事先可以把 $X$ 的第 $k$ 列除以 $s_k$、$W$ 的第 $k$ 列乘以 $s_k$，因为
# $XW^\top = (X D^{-1})(W D)^\top$：在两者量化之前，一部分离群值移到了权重里，之后用通常的逐 token、逐通道 scale 即可。

# %% [markdown]
# **7. Predict, then look.** On an H200, $M = N = K = 1024$: how many times as fast as cuBLAS fp16 is the reference solution?
# This is not marked: write down what you expect before the next cell shows the measurement.

# %% [markdown] lang="zh"
# **7. 先预测，再看。** 在 H200 上，$M = N = K = 1024$：参考答案是 cuBLAS fp16 的几倍速？
# 这一题不计分：在下一个单元给出实测值之前，先写下你的预期。

# %% solution="w8a8_prediction"
guess = None  # times as fast as cuBLAS fp16
### BEGIN SOLUTION
guess = 1.5
### END SOLUTION
lock("w8a8", guess, "times as fast as cuBLAS fp16")

# %%
said = reveal("w8a8")
entry = measured("w8a8", "solution", M=1024)[0]
said.against(entry.ratio)
print(f"{entry.time_us:.1f} us, cuBLAS fp16 {entry.cublas_us:.1f} us: a product this small leaves most of the GPU idle")

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.

# %% [markdown] lang="zh"
# ## 做完了？
#
# 保存这个 notebook。`make grade SUBMISSION=notebooks/zh` 读取保存的文件，给出的结果与上面各单元相同。
