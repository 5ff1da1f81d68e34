# %% [markdown]
# # W4A16: a quarter of the bytes
#
# $$y_{mn} = s_n \sum_k x_{mk}\,q_{kn}, \qquad q_{kn} \in \{-8, \dots, 7\}$$
#
# - The weight arrives as int4, eight to an int32 word, with one fp16 scale $s_n$ for each output channel.
# - The activations stay fp16: this is **weight-only** quantisation. Nothing has to be computed about $X$ while the model runs, and
#   $X$ itself has no error.
# - **Your kernel**, `W4A16_MM`, unpacks the words and multiplies. Unpacking is **fused** into the product: the fp16 weight exists
#   in registers and shared memory, tile by tile, and never in DRAM.
#
# With one token, a linear layer spends nearly all its time reading its weight. Four bits instead of sixteen is the gain. The price is
# unpacking.

# %% [markdown] lang="zh"
# # W4A16：四分之一的字节
#
# $$y_{mn} = s_n \sum_k x_{mk}\,q_{kn}, \qquad q_{kn} \in \{-8, \dots, 7\}$$
#
# - 权重以 int4 存放，八个拼成一个 32 位字（word，int32），每个输出通道有一个 fp16 的 scale $s_n$。
# - 激活保持 fp16，这叫**只量化权重**（weight-only）：模型运行时不必从 $X$ 统计任何东西，$X$ 也没有量化误差。
# - **你的 kernel** `W4A16_MM` 把字拆开，再做乘法。拆包与乘法**融合**在一起：fp16 的权重只在寄存器和共享内存里，逐个 tile 地出现，从不写到 DRAM。
#
# 只有一个 token 时，线性层的时间几乎全花在读权重上。每个权重从十六位减到四位，收益就在这里；代价是要拆包。

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## One word
#
# Eight neighbours along $K$, the first in the lowest four bits. Four bits are a **nibble**. Patterns 8 to 15 stand for negative
# numbers: subtract 16.

# %% [markdown] lang="zh"
# ## 一个 32 位字
#
# 沿 $K$ 相邻的八个数，第一个放在最低四位。四位称为一个 **nibble**（半字节）；读作 8 到 15 的 nibble 表示负数，要减去 16：

# %%
pictures.int4_word(0xE9035A7F, row=5, column=3)

# %% [markdown]
# `(word >> 4 * i) & 0xF` gives 0 to 15: the sign is lost. Keep that in mind for step 2.
#
# Sixteen levels are few. Here is a row of weights on them:

# %% [markdown] lang="zh"
# `(word >> 4 * i) & 0xF` 得到的是 0 到 15，符号丢了。做第 2 步时要记得这一点。
#
# 十六个取值很少。下图是一行权重落在这些取值上的样子：

# %%
torch.manual_seed(0)
w = torch.randn(512)
pictures.quantisation(w, float(w.abs().max() / 7), bits=4, name="one output channel")

# %% [markdown]
# ## The layer around your kernel
#
# This is given. Read `pack_int4` and `unpack_int4` once: your kernel does the second, tile by tile.

# %% [markdown] lang="zh"
# ## kernel 所在的层
#
# 这一部分已经写好。`pack_int4` 和 `unpack_int4` 请读一遍：你的 kernel 做的就是后者，只是逐个 tile 地做。

# %%
# include solutions/w4a16.py: quantise .. launch

# %% [markdown]
# ## Two functions that you know
#
# You wrote them for the opening and for W8A8. They are given here, so run the cell; use them for $X$ and for $Y$.

# %% [markdown] lang="zh"
# ## 两个熟悉的函数
#
# 你在 opening 和 W8A8 里写过它们。这里直接给出，运行这个单元即可；读 $X$、写 $Y$ 时用它们。

# %%
# include notebooks/source/parts/load_tile.py


# include notebooks/source/parts/store_tile.py

# %% [markdown]
# ## Step 1: load words
#
# A tile of `BLOCK_K` rows of the weight is `BLOCK_K // 8` rows of words.
# `qweight` is `[K / 8, N]`, word `(j, n)` at `j * stride_wk + n * stride_wn`.
# `first_k` is where the tile begins along $K$, a multiple of 8.
#
# $K$ and $N$ are multiples of 8, but seldom of your tile. A word is entirely inside or entirely outside, so the mask is per word, and
# words outside are loaded as 0.

# %% [markdown] lang="zh"
# ## 第 1 步：读取字
#
# 权重的一个 tile 有 `BLOCK_K` 行，也就是 `BLOCK_K // 8` 行字。
# `qweight` 的形状是 `[K / 8, N]`，字 `(j, n)` 位于 `j * stride_wk + n * stride_wn`。
# `first_k` 是这个 tile 沿 $K$ 的起点，是 8 的倍数。
#
# $K$ 和 $N$ 都是 8 的倍数，但很少正好是 tile 的整数倍。一个字要么整个在界内，要么整个在界外，所以 mask 以字为单位；界外的字一律读作 0。

# %% solution="w4a16_step_load"
@triton.jit
def load_words(qweight_ptr, first_k, columns, K, N, stride_wk, stride_wn, BLOCK_K: tl.constexpr):
    """The words that hold rows first_k to first_k + BLOCK_K - 1: int32 [BLOCK_K // 8, len(columns)].

    Zero for words beyond row K of the weight and for columns from N on.
    """
    ### BEGIN SOLUTION
    words = first_k // 8 + tl.arange(0, BLOCK_K // 8)
    inside = (words < K // 8)[:, None] & (columns < N)[None, :]
    at = words[:, None] * stride_wk + columns[None, :] * stride_wn
    return tl.load(qweight_ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="w4a16_step_load_check"
check("w4a16", step="load")

# %% [markdown]
# ## Step 2: unpack them
#
# From `[words, columns]` to `[8 * words, columns]`, in the order of $K$. In the opening's `unpack` each word became a row of eight
# elements; here the eight elements of a word go *down* the column.
#
# The sign: shift a nibble *left* until its top bit is the word's top bit, then right by 28.
# On a signed integer `>>` copies the sign bit.
#
# The order: make it `[words, 8, columns]` with a tile of eight shifts in the middle
# (`[:, None, :]` and `[None, :, None]`), then `tl.reshape`.

# %% [markdown] lang="zh"
# ## 第 2 步：拆包
#
# 从 `[words, columns]` 变成 `[8 * words, columns]`，按 $K$ 的顺序排列。opening 里的练习 `unpack` 拆的是一行字，每个字拆成一行；
# 这里一个字的八个元素则要**竖着**往下排。
#
# 符号：先把半字节**左移**，让它的最高位落到整个字的最高位上，再右移 28 位。
# 对有符号整数，`>>` 会复制符号位。
#
# 顺序：在中间插入由八个移位量组成的 tile，得到 `[words, 8, columns]`
# （`[:, None, :]` 和 `[None, :, None]`），再用 `tl.reshape`。

# %% solution="w4a16_step_unpack"
@triton.jit
def unpack_words(words):
    """int32 [W, columns] -> fp16 [8 * W, columns], values -8 to 7; W is words.shape[0]."""
    ### BEGIN SOLUTION
    shifts = (28 - 4 * tl.arange(0, 8))[None, :, None]
    q = (words[:, None, :] << shifts) >> 28
    return tl.reshape(q, (8 * words.shape[0], words.shape[1])).to(tl.float16)
    ### END SOLUTION

# %% test="w4a16_step_unpack_check"
check("w4a16", step="unpack")

# %% [markdown]
# ## Step 3: one dot
#
# fp16 operands, fp32 accumulator. The integers -8 to 7 are exact in fp16, so nothing is lost here.

# %% [markdown] lang="zh"
# ## 第 3 步：一次 dot
#
# 操作数是 fp16，累加器是 fp32。-8 到 7 的整数用 fp16 都能精确表示，所以这里没有任何损失。

# %% solution="w4a16_step_dot"
@triton.jit
def multiply_tiles(x, q, acc):
    """x fp16 [rows, depth], q fp16 [depth, columns], acc fp32 [rows, columns] -> acc + x @ q, fp32."""
    ### BEGIN SOLUTION
    return tl.dot(x, q, acc)
    ### END SOLUTION

# %% test="w4a16_step_dot_check"
check("w4a16", step="dot")

# %% [markdown]
# ## Step 4: the loop
#
# Loop along $K$: load a tile of $X$ (`load_tile`) and the words for the same k, unpack, multiply, add. `K` may end inside the last tile.

# %% [markdown] lang="zh"
# ## 第 4 步：循环
#
# 沿 $K$ 前进：读 $X$ 的一个 tile（`load_tile`），读与它对应的字，拆包，相乘，累加。`K` 可能在最后一个 tile 的中间结束。

# %% solution="w4a16_step_loop"
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
        x = load_tile(x_ptr, rows, k + tl.arange(0, BLOCK_K), M, K, stride_xm, stride_xk)
        words = load_words(qweight_ptr, k, columns, K, N, stride_wk, stride_wn, BLOCK_K)
        acc = multiply_tiles(x, unpack_words(words), acc)
    return acc
    ### END SOLUTION

# %% test="w4a16_step_loop_check"
check("w4a16", step="loop")

# %% [markdown]
# ## Step 5: the epilogue
#
# $s_n$ does not depend on $k$, so it can be moved out of the sum. Apply it once, while the sum is still in registers, and convert.
#
# Mind the order. fp16 ends at 65504; a sum of $x q$ may be beyond that although its scaled value is well below. A number too large
# for its type becomes inf (**overflow**), and no scale brings it back.

# %% [markdown] lang="zh"
# ## 第 5 步：收尾（epilogue）
#
# $s_n$ 与 $k$ 无关，所以提到了求和号外面。趁和还在寄存器里，乘一次 scale，再转换类型。
#
# 注意顺序。fp16 最大到 65504；$x q$ 的和可能超出它，而乘上 scale 之后又远在它之内。数值太大、类型装不下，就变成 inf（**溢出**，overflow），
# 之后再乘什么 scale 也救不回来。

# %% solution="w4a16_step_epilogue"
@triton.jit
def apply_scales(acc, scales):
    """acc fp32 [rows, columns], scales fp16 [columns] -> fp16 [rows, columns]."""
    ### BEGIN SOLUTION
    return (acc * scales.to(tl.float32)[None, :]).to(tl.float16)
    ### END SOLUTION

# %% test="w4a16_step_epilogue_check"
check("w4a16", step="epilogue")

# %% [markdown]
# ## The kernel
#
# You have all the pieces. Put together unchanged, they are a kernel worth 60 points:
#
# 1. Which tile of $Y$ is this program's? `pid = tl.program_id(0)` counts tiles row by row, and `tl.cdiv(N, BLOCK_N)` tiles
#    make a row of tiles. From `pid`, `rows` and `columns`, as in W8A8.
# 2. The scales of its columns: one load of one axis, masked at `N`.
# 3. `accumulate(...)`, then `apply_scales(...)`, then `store_tile(...)`, which is given above.
#
# Write this in place of `pass`. More configs and helpers above the kernel are for later.
# Leave `SPLIT_K` alone, too: while it is 1 it changes nothing.

# %% [markdown] lang="zh"
# ## kernel
#
# 零件已经齐了。一个都不用重写，拼起来就是一个值 60 分的 kernel：
#
# 1. 这个程序负责 $Y$ 的哪个 tile？`pid = tl.program_id(0)` 逐行给 tile 编号，每一行有 `tl.cdiv(N, BLOCK_N)` 个 tile。由 `pid` 得出 `rows` 和 `columns`，与 W8A8 相同。
# 2. 读取它那些列的 scale：只有一个轴的一次读取，mask 以 `N` 为界。
# 3. `accumulate(...)`，然后 `apply_scales(...)`，然后 `store_tile(...)`，最后这个上面已经给出。
#
# 写在 `pass` 的位置。kernel 上方还可以加更多 config 和辅助函数，那是后面的事。
# `SPLIT_K` 也先别管：它等于 1 时没有任何影响。

# %% solution="w4a16_kernel"
# include solutions/w4a16.py: CONFIGS .. W4A16_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.

# %% [markdown] lang="zh"
# 这就是评分程序。没有 GPU 时大约需要十秒。

# %% test="w4a16_correctness" points=60
check("w4a16")

# %% [markdown]
# ## Your kernel in its layer

# %% [markdown] lang="zh"
# ## 把你的 kernel 放进层里

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(128, 64, bias=False)
layer = QuantLinear_w4a16.from_linear(linear).to(device)
x = torch.randn(5, 128, device=device).half()
y, exact = layer(x).double().cpu(), x.double().cpu() @ linear.weight.detach().double().T
print(f"relative error of this layer with 4 bits: {float((y - exact).norm() / exact.norm()):.1%}")
print(f"its weight takes {layer.qweight.numel() * 4} bytes instead of {linear.weight.numel() * 2} in fp16")

# %% [markdown]
# ## What your kernel does to memory
#
# The interpreter knows every address that your kernel loads and stores. The next cells run it on a few tiles and count. Nothing is graded.
#
# Predict first: a word holds eight weights. How often does *one* program load a word, once or eight times? How many programs load it?

# %% [markdown] lang="zh"
# ## 你的 kernel 怎样访问内存
#
# 解释器知道你的 kernel 读写的每一个地址。下面几个单元让它跑几个 tile，并逐一计数。不计分。
#
# 先预测：一个字里有八个权重。**一个**程序会把同一个字读几次，一次还是八次？有多少个程序会读它？

# %%
from grader.notebook import show_memory, show_programs, show_warp

show_memory("w4a16", program=5)

# %% [markdown]
# `qweight` counts words. "Distinct" is what DRAM must deliver; repeated loads come from caches, but each load is an
# instruction all the same.
#
# The next cell shows which thread holds which nibble after the load, and what a warp touches. Memory comes in sectors of 32 bytes:

# %% [markdown] lang="zh"
# `qweight` 按字计数。“distinct”（去重之后）是 DRAM 必须送来的量；超出它的部分由缓存提供，但每次读取都照样是一条指令。
#
# 读取之后哪个线程拿着哪个半字节，一个 warp 又会碰到哪些内存。内存以 32 字节的 sector 为单位传送：

# %%
show_warp("w4a16")

# %% [markdown]
# The next cell shows which program computes which tile of $Y$. If a config splits $K$ (`config=...` picks one), the second picture
# shows which program takes which part:

# %% [markdown] lang="zh"
# $Y$ 的各个 tile 分别由谁来算。如果 config 把 $K$ 切开（用 `config=...` 选一个），第二张图说明谁负责哪一段：

# %%
show_programs("w4a16")

# %% [markdown]
# ## How fast can it get?
#
# A correct kernel is worth 60 points, a fast one the other 40. This is the path, one idea per step, with the points that each step's
# own kernel earns:
#
# @ladder w4a16: m1_n4096_k4096 m16_n4096_k4096 m512_n4096_k4096
#
# Each step below has one change, one number to predict and one cell that checks. Run its first cell with the dots as they are: if your
# kernel has already taken the step, it says so, and there is nothing to predict. If not, put your number in their place and check; then
# change the kernel above, run its cell, and check again. A wrong prediction costs nothing, and a surprise teaches most.
#
# The checks measure no time. They look at what the compiler made of your kernel for an H200 (the instructions of one iteration of the
# loop, the registers, the shared memory), at the grid, and at the bytes that the interpreter counts on a small problem. They are
# worth no points; the clock at the end is.

# %% [markdown] lang="zh"
# ## 能快到什么程度？
#
# 做对得 60 分，做快得另外 40 分。下面是一条路线，一步一个想法，并列出每一步自己的 kernel 得多少分：
#
# @ladder w4a16: m1_n4096_k4096 m16_n4096_k4096 m512_n4096_k4096
# | 每个元素各自读一个字，移出自己的半字节，再乘 scale
# | scale 移出求和，在收尾时只乘一次
# | 一个字只读一次，在寄存器里拆开，一次两个半字节，不做类型转换
# | SPLIT_K 个程序共用 $Y$ 的一个 tile，各算 $K$ 的一段；照顾 L2 的顺序；tile 自动调优
# | 乘积转置过来算，让权重从寄存器进入，用到哪里拆到哪里
#
# 下面每一步都有一处改动、一个要预测的数和一个检查单元。先原样运行第一个单元，省略号不动：你的 kernel 已经做到的步骤会直接说明，不必预测。
# 否则把你的数写在省略号那里并检查；然后修改上面的 kernel，运行它所在的单元，再检查一次。猜错没有损失，而意料之外的结果最能让人学到东西。
#
# 这些检查不计时。它们看的是编译器为 H200 把你的 kernel 编译成了什么（循环一轮的指令、寄存器、共享内存），是 grid，还有解释器在一个小规模问题上
# 数出的字节数。它们不计分，计分的是最后的计时。

# %% [markdown]
# ### Faster, step 1: the scales leave the loop
#
# The scale of a column is constant along $K$, so it need not be applied to each weight. Then the loop multiplies plain integers,
# which are exact in fp16. With 16 tokens a weight is scaled only once anyway, and the loads and conversions of the loop stay: expect
# nothing there, and a little with 512 tokens.
#
# @speed w4a16: epilogue

# %% [markdown] lang="zh"
# ### 加速第 1 步：scale 移出循环
#
# 一列的 scale 沿 $K$ 不变，所以不必乘到每个权重上。这样循环里乘的就是纯整数，而 fp16 能精确表示它们。只有 16 个 token 时，每个权重本来就只乘一次 scale，
# 循环里的读取和转换都还在：那里看不出变化，512 个 token 时会快一点。
#
# @speed w4a16: epilogue | 512 个 token 时，以你现在的 kernel，一次启动里，同一个权重要乘几次 scale？

# %% solution="w4a16_faster_epilogue"
scalings = ...
### BEGIN SOLUTION
scalings = 0  # this kernel scales after the loop; inside it would be 512 / BLOCK_M times
### END SOLUTION
predict("w4a16", "epilogue", scalings)

# %% test="w4a16_faster_epilogue_check"
check("w4a16", speed="epilogue")

# %% [markdown]
# ### Faster, step 2: whole words
#
# Eight weights share a word. A kernel that loads a word for each of them loads it eight times: the repeated loads hit in L2, so they
# cost no DRAM traffic, but each costs an instruction.
#
# @speed w4a16: words

# %% [markdown] lang="zh"
# ### 加速第 2 步：整字读取
#
# 八个权重共用一个字。如果 kernel 为每个权重各读一次，同一个字就要读八次：这不会多访问 DRAM，因为 L2 里已经有了，但每次都要一条指令。
#
# @speed w4a16: words | M = 16、N = 128、K = 512 时，做完这一步之后，一次启动的所有读取在 qweight 上总共要多少字节？

# %% solution="w4a16_faster_words"
read = ...
### BEGIN SOLUTION
read = 512 // 8 * 128 * 4
### END SOLUTION
predict("w4a16", "words", read)

# %% test="w4a16_faster_words_check"
check("w4a16", speed="words")

# %% [markdown]
# ### Faster, step 3: two nibbles at a time, without a conversion
#
# Converting an integer to a float takes an instruction for every weight, at a fraction of the rate of a multiply-add. But fp16
# numbers between 1024 and 2048 are spaced 1 apart: the bits `0x6400 | u` *are* the number $1024 + u$, for $u$ of 0 to 15. A nibble in
# two's complement whose sign bit is flipped is $u = q + 8$. So two nibbles in the two halves of an int32 are two fp16 numbers, and
# one subtraction gives both weights.
#
# @speed w4a16: nibbles

# %% [markdown] lang="zh"
# ### 加速第 3 步：一次两个半字节，不做转换
#
# 整数转成浮点数要专门一条指令，速率只有乘加的几分之一，而且每个权重一次。但 1024 到 2048 之间的 fp16 数，间隔正好是 1：二进制位
# `0x6400 | u` **就是**数 $1024 + u$（$u$ 为 0 到 15）。补码的半字节翻转符号位之后是 $u = q + 8$。所以把两个半字节放进一个 int32 的两半，
# 就是两个 fp16 数，再做一次减法就得到两个权重。
#
# @speed w4a16: nibbles | 做完这一步之后，循环在一个权重上要花几条浮点指令（包括转换）？

# %% solution="w4a16_faster_nibbles"
instructions = ...
### BEGIN SOLUTION
instructions = 0.5  # one subtraction for two
### END SOLUTION
predict("w4a16", "nibbles", instructions)

# %% test="w4a16_faster_nibbles_check"
check("w4a16", speed="nibbles")

# %% [markdown]
# ### Faster, step 4: one token: work for every multiprocessor
#
# With one token, 4096 columns in tiles of 64 are 64 programs, on a GPU with 132 multiprocessors. `SPLIT_K` programs share a tile,
# each takes a part of $K$, and `tl.atomic_add` adds up their partial sums. $Y$ then arrives zeroed, and the zeroing is timed. With a
# `SPLIT_K` of 1 it is not zeroed, so keep the plain store for that: `if SPLIT_K == 1:` is decided for each config when it is compiled.
# Fewer rows per tile help, too.
#
# @speed w4a16: split

# %% [markdown] lang="zh"
# ### 加速第 4 步：只有一个 token 时，让每个 SM 都有程序可运行
#
# 一个 token、4096 列、tile 宽 64，一共是 64 个程序，而 GPU 有 132 个 SM。让 `SPLIT_K` 个程序共同负责一个 tile，
# 各算 $K$ 的一段，再用 `tl.atomic_add` 加在一起。这时传入的 $Y$ 已经清零，清零的时间也计算在内。
# `SPLIT_K` 为 1 时不会清零，所以那种情况保留普通的 store：`if SPLIT_K == 1:` 对每个 config 在编译时就定下来。减少 tile 的行数也有帮助。
#
# @speed w4a16: split | 1 个 token、N = K = 4096 时，用程序最多的那个 config，一次启动会有几个程序？

# %% solution="w4a16_faster_split"
programs = ...
### BEGIN SOLUTION
programs = 4096 // 64 * 8
### END SOLUTION
predict("w4a16", "split", programs)

# %% test="w4a16_faster_split_check"
check("w4a16", speed="split")

# %% [markdown]
# ### Faster, step 5: operand order
#
# wgmma, the matrix instruction of Hopper, may take its first operand from registers, its second only from shared memory. So the
# unpacked weights, four times the bytes of the words, go through shared memory in every iteration, unless they come first and each
# thread unpacks just the nibbles that it multiplies.
#
# Which nibbles does a thread need? In that operand, lane t of a warp holds two neighbours along k of row t // 4. For one word of each
# of eight rows of $W$ these are the lanes (they repeat for the rows 8 further down and for the words beside them):
#
# ```text
# k       0  1  2  3  4  5  6  7
# n = 0   0  0  1  1  2  2  3  3
# n = 1   4  4  5  5  6  6  7  7
# n = 2   8  8  9  9 10 10 11 11
# ...
# n = 7  28 28 29 29 30 30 31 31
# ```
#
# Four lanes read the same word and unpack one byte each. It takes only these ten lines of the solution's PTX (`BLOCK_M` = 16, sm_90):
#
# ```text
# shl.b32       %r5, %r3, 3                  // 8 * thread
# and.b32       %r24, %r5, 24                // 8 * (t % 4): where the lane's byte begins
# ld.shared.b32 %r230, [%r229]               // a word, eight nibbles: the same one in four lanes
# shr.s32       %r294, %r230, %r24           // the lane's byte at the bottom
# and.b32       %r358, %r294, 255            // two nibbles, VU
# mul.lo.s32    %r422, %r358, 4097           // times 2^12 + 1: U at bits 0 to 3, V at 16 to 19
# and.b32       %r486, %r422, %r23           // & 0x000F000F: V in the upper half, U in the lower
# xor.b32       %r550, %r486, 1678271496     // ^ 0x64086408: 1024 + 8 + q as fp16, twice
# mov.b32       %r551, -469179384            // 0xE408E408: -1032 as fp16, twice
# add.f16x2     %r142, %r550, %r551          // q, twice, and no conversion
# wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
#     {...}, {%r142, ...}, ...              // the operand: four such registers
# ```
#
# @speed w4a16: registers

# %% [markdown] lang="zh"
# ### 加速第 5 步：操作数的顺序
#
# wgmma 是 Hopper 的矩阵乘指令，它的第一个操作数可以来自寄存器，第二个只能来自共享内存。拆包后的权重，字节数是原来那些字的四倍，
# 因此每轮循环都要在共享内存里走一趟；除非把权重放在前面，让每个线程只拆它自己要乘的那些半字节。
#
# 哪些半字节归哪个线程？在这个操作数里，warp 的 lane t 持有第 t // 4 行沿 k 相邻的两个数。下面是一个字和 $W$ 的八行分别在哪个
# lane（再往下 8 行以及旁边的字，还是这些 lane）：
#
# ```text
# k       0  1  2  3  4  5  6  7
# n = 0   0  0  1  1  2  2  3  3
# n = 1   4  4  5  5  6  6  7  7
# n = 2   8  8  9  9 10 10 11 11
# ...
# n = 7  28 28 29 29 30 30 31 31
# ```
#
# 四个 lane 读同一个字，各自拆一个字节。在参考答案的 PTX 里，这十行就够了（`BLOCK_M` = 16，sm_90）：
#
# ```text
# shl.b32       %r5, %r3, 3                  // 8 * 线程号
# and.b32       %r24, %r5, 24                // 8 * (t % 4)：本 lane 那个字节的起始位
# ld.shared.b32 %r230, [%r229]               // 一个字，八个半字节：四个 lane 读同一个字
# shr.s32       %r294, %r230, %r24           // 本 lane 的字节移到最低位
# and.b32       %r358, %r294, 255            // 两个半字节 VU
# mul.lo.s32    %r422, %r358, 4097           // 乘以 2^12 + 1：U 在第 0 到 3 位，V 在第 16 到 19 位
# and.b32       %r486, %r422, %r23           // & 0x000F000F：V 在高一半，U 在低一半
# xor.b32       %r550, %r486, 1678271496     // ^ 0x64086408：fp16 的 1024 + 8 + q，两份
# mov.b32       %r551, -469179384            // 0xE408E408：fp16 的 -1032，两份
# add.f16x2     %r142, %r550, %r551          // 两个 q，没有用转换指令
# wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
#     {...}, {%r142, ...}, ...              // 操作数：四个这样的寄存器
# ```
#
# @speed w4a16: registers | 以你现在的 kernel，一个程序在循环的一轮里往共享内存写多少字节？

# %% solution="w4a16_faster_registers"
stored = ...
### BEGIN SOLUTION
stored = 0  # this kernel stores none; before the step it was BLOCK_N * BLOCK_K * 2
### END SOLUTION
predict("w4a16", "registers", stored)

# %% test="w4a16_faster_registers_check"
check("w4a16", speed="registers")

# %% [markdown]
# ### Faster, step 6: one token, without atomics
#
# With one token, zeroing $Y$ and adding to it with atomics still takes time. Could the warps of *one* program share $K$ instead,
# so that there are enough programs without `SPLIT_K`?
#
# A batched tl.dot of small tiles uses the older mma.sync. There the compiler gives each lane four neighbouring k, and any order of k
# will do, as long as $X$ has the same order. So a lane may take a whole word. These are the lanes for 32 k and eight rows of $W$:
#
# ```text
# k        0-7  8-15 16-23 24-31
# n = 0      0     1     2     3
# n = 1      4     5     6     7
# n = 2      8     9    10    11
# ...
# n = 7     28    29    30    31
# ```
#
# The solution's PTX (`BLOCK_M` = 8) reads a word and extracts each pair of nibbles with a mask; three of the four pairs are shifted first:
#
# ```text
# ld.shared.b32 %r230, [%r229+24576]         // a word, eight nibbles, which no other lane needs
# and.b32       %r262, %r230, %r19           // & 0x000F000F: nibbles 0 and 4, one in each half
# xor.b32       %r294, %r262, 1678271496     // as above
# mov.b32       %r295, -469179384
# add.f16x2     %r148, %r294, %r295          // q of nibbles 0 and 4
# mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
#     {...}, {%r148, ...}, ...              // nibbles 1 and 5 are the next register
# ```
#
# @speed w4a16: slices

# %% [markdown] lang="zh"
# ### 加速第 6 步：只有一个 token，不用原子操作
#
# 只有一个 token 时，还有一处开销：$Y$ 要先清零，再用原子操作累加。能不能改由**一个**程序里的各个 warp 来分担 $K$，不用 `SPLIT_K` 也有足够多的程序？
#
# 一批小矩阵乘用的是较老的指令 mma.sync。编译器让每个 lane 持有沿 k 相邻的四个数；这四个 k 是哪几个可以自选，只要 $X$ 用同样的
# 顺序。因此一个 lane 可以拿走一整个字。32 个 k 和 $W$ 的八行分别在哪个 lane：
#
# ```text
# k        0-7  8-15 16-23 24-31
# n = 0      0     1     2     3
# n = 1      4     5     6     7
# n = 2      8     9    10    11
# ...
# n = 7     28    29    30    31
# ```
#
# 参考答案的 PTX（`BLOCK_M` = 8）读一个字，用掩码取出每一对半字节；四对里有三对要先移位：
#
# ```text
# ld.shared.b32 %r230, [%r229+24576]         // 一个字，八个半字节，别的 lane 都不需要
# and.b32       %r262, %r230, %r19           // & 0x000F000F：半字节 0 和 4，各占一半
# xor.b32       %r294, %r262, 1678271496     // 同上
# mov.b32       %r295, -469179384
# add.f16x2     %r148, %r294, %r295          // 半字节 0 和 4 的 q
# mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
#     {...}, {%r148, ...}, ...              // 半字节 1 和 5 在下一个寄存器里
# ```
#
# @speed w4a16: slices | 权重共 8,388,608 字节。完成这一步之后，1 个 token 时，你的每个程序要读其中多少字节？

# %% solution="w4a16_faster_slices"
bytes_each = ...
### BEGIN SOLUTION
bytes_each = 8388608 // 256
### END SOLUTION
predict("w4a16", "slices", bytes_each)

# %% test="w4a16_faster_slices_check"
check("w4a16", speed="slices")

# %% [markdown]
# ### Against the clock
#
# **Your levers:** configs (up to 16), `SPLIT_K`, how a word is unpacked, which operand `tl.dot` gets first. With 512 tokens no kernel
# here beats cuBLAS: the products are fp16 either way, so the lower bound is the same for both (@bench{1e6 * 2 * 512 * 4096**2 / fp16_per_second:.0f} us at the tensor cores' peak, where cuBLAS takes
# @bench{cublas_us("w4a16", "m512_n4096_k4096"):.0f}), and unpacking comes on top.

# %% [markdown] lang="zh"
# ### 实测计时
#
# **可以调的有：** config（最多 16 个）、`SPLIT_K`、字怎样拆、`tl.dot` 的第一个操作数放谁。512 个 token 时，这里没有谁能胜过 cuBLAS：
# 反正做的都是 fp16 乘法，两者的时间下限相同（按 Tensor Core 的峰值算是 @bench{1e6 * 2 * 512 * 4096**2 / fp16_per_second:.0f} us，cuBLAS 实际用了
# @bench{cublas_us("w4a16", "m512_n4096_k4096"):.0f} us），拆包还要另花时间。

# %% test="w4a16_speed" points=40
check_speed("w4a16")

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

# %% solution="w4a16_student"
student = ""
### BEGIN SOLUTION
student = "Ada Lovelace"
### END SOLUTION

# %% [markdown]
# **1. Bytes that must move**

# %% [markdown] lang="zh"
# **1. 至少要搬运多少字节**

# %% solution="w4a16_answer_bytes"
ask("w4a16", "bytes")
w4a16_bytes = None  # MB
### BEGIN SOLUTION
w4a16_bytes = (2 * 16 * 4096 + 8192 * 4096 / 2 + 2 * 8192 + 2 * 16 * 8192) / 1e6
### END SOLUTION

# %% test="w4a16_question_bytes" points=2
check_answer("w4a16", "bytes")

# %% [markdown]
# **2. What is there to gain?**

# %% [markdown] lang="zh"
# **2. 最多能快多少**

# %% solution="w4a16_answer_gain"
ask("w4a16", "gain")
w4a16_gain = None  # times
### BEGIN SOLUTION
compute = 2 * 96 * 3072 * 5120 / 900e6
memory16 = (2 * 96 * 5120 + 2 * 3072 * 5120 + 2 * 96 * 3072) / 3e6
memory4 = (2 * 96 * 5120 + 3072 * 5120 / 2 + 2 * 96 * 3072) / 3e6
w4a16_gain = max(memory16, compute) / max(memory4, compute)
### END SOLUTION

# %% test="w4a16_question_gain" points=2
check_answer("w4a16", "gain")

# %% [markdown]
# **3. Bits per weight**

# %% [markdown] lang="zh"
# **3. 每个权重多少位**

# %% solution="w4a16_answer_bits"
ask("w4a16", "bits")
w4a16_bits = None  # bits
### BEGIN SOLUTION
w4a16_bits = 4 + (16 + 4) / 128
### END SOLUTION

# %% test="w4a16_question_bits" points=1
check_answer("w4a16", "bits")

# %% [markdown]
# **4. Read a word**

# %% [markdown] lang="zh"
# **4. 读一个字**

# %% solution="w4a16_answer_nibble"
ask("w4a16", "nibble")
w4a16_nibble = None  # a whole number
### BEGIN SOLUTION
w4a16_nibble = 9 - 16
### END SOLUTION

# %% test="w4a16_question_nibble" points=1
check_answer("w4a16", "nibble")

# %% [markdown]
# **5. When to scale.** A kernel could multiply $q$ by $s_n$ right after unpacking it, in fp16. Name two things that are worse about that.

# %% [markdown] lang="zh"
# **5. 什么时候乘 scale。** kernel 也可以在拆包之后立刻用 fp16 把 $q$ 乘上 $s_n$。说出这样做的两个坏处。

# %% [markdown] answer="w4a16_question_scale" points=2
# The product $q s$ is rounded to fp16 (a relative error of up to $2^{-11}$ in every weight), while $q$ alone is exact. And it
# is one multiplication for each weight in each tile, $N K$ for every row of tiles, instead of one for each element of $Y$.

# %% [markdown] lang="zh"
# 乘积 $q s$ 要舍入到 fp16（每个权重都带上至多 $2^{-11}$ 的相对误差），而 $q$ 本身是精确的。而且这样每个 tile 的每个权重都要乘一次，
# 每一行 tile 共 $N K$ 次；放在最后，则是 $Y$ 的每个元素乘一次。

# %% [markdown]
# **6. Order.** Suppose your kernel unpacks each word in the order 0, 4, 1, 5, 2, 6, 3, 7. Can the result still be right,
# without sorting anything in the weight? Why might somebody want that?

# %% [markdown] lang="zh"
# **6. 顺序。** 假设你的 kernel 按 0、4、1、5、2、6、3、7 的顺序拆开每个字。在不重排权重的前提下，结果还可能正确吗？为什么有人想这样做？

# %% [markdown] answer="w4a16_question_order" points=2
# Yes: a sum does not depend on the order of its terms, so if the columns of $X$ are loaded in the same order, each weight is still
# multiplied by its own element of $X$. One may want it because some orders are cheaper to make: elements $j$ and $j + 4$ sit 16 bits
# apart, so one operation on the word treats both as the two halves of a pair of fp16 numbers.

# %% [markdown] lang="zh"
# 可能：求和与各项的顺序无关，只要按同样的顺序读取 $X$ 的列，每个乘积仍然配对正确。想这样做，是因为有些顺序拆起来更省：元素 $j$ 和 $j + 4$ 相隔 16 位，
# 对整个字做一次运算，就同时处理了一对 fp16 数的两半。

# %% [markdown]
# **7. Predict, then look.** On an H200, $N = K = 4096$: how many times as fast as cuBLAS fp16 is the reference solution with 64 tokens?
# This is not marked: write down what you expect before the next cell shows the measurement.

# %% [markdown] lang="zh"
# **7. 先预测，再看。** 在 H200 上，$N = K = 4096$，64 个 token：参考答案是 cuBLAS fp16 的几倍速？
# 这一题不计分：在下一个单元给出实测值之前，先写下你的预期。

# %% solution="w4a16_prediction"
from grader.notebook.trial import lock, measured, reveal

guess = None  # times as fast as cuBLAS fp16
### BEGIN SOLUTION
guess = 2.0
### END SOLUTION
lock("w4a16", guess, "times as fast as cuBLAS fp16")

# %%
said = reveal("w4a16")
entry = measured("w4a16", "solution", M=64)[0]
said.against(entry.ratio)
print(f"{entry.time_us:.1f} us, cuBLAS fp16 {entry.cublas_us:.1f} us")

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.

# %% [markdown] lang="zh"
# ## 做完了？
#
# 保存这个 notebook。`make grade SUBMISSION=notebooks/zh` 读取保存的文件，给出的结果与上面各单元相同。
