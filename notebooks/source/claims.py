# %% [markdown]
# # Testing claims
#
# Lectures and blogs on quantisation are full of sentences that sound like laws. Here are six of them. Each is tested in the same way:
#
# 1. **The claim**, in our words, and where it comes from.
# 2. **You predict** a number. It is stored, with a digest, in `predictions.json` beside this notebook.
# 3. **The numbers**: measured on an H200, or, where there is no measurement, computed.
# 4. **The verdict**: computed from those numbers in the cell that you run.
# 5. **Your GPU**, if you have one: a cell that repeats the measurement there.
#
# Nothing here is graded, and a wrong prediction costs nothing: it helps you remember the number.

# %% [markdown] lang="zh"
# # 这些说法站得住吗？
#
# 讲座和博客里关于量化的说法，常常听起来像定律。这里挑出六条，用同一套办法逐条检验：
#
# 1. **结论**：用我们自己的话转述，并注明出处。
# 2. **你来预测**一个数。它会连同摘要值（digest）锁定在 notebook 旁边的 `predictions.json` 里。
# 3. **数据**：在 H200 上实测的结果；没有人测过的，就用算术推到能推的地方为止。
# 4. **检验结果**：由你运行的那个单元根据这些数据算出来。
# 5. **你的 GPU**：如果你有，最后一个单元在它上面再测一遍。
#
# 这里不计分。猜错也不丢什么：先猜过，数字才记得住。

# %%
# include notebooks/source/parts/setup.py

# %%
from grader.notebook.trial import after, gpu_here, lock, measured, megabytes, microseconds, record, reveal, verdict, whole_model

versions = ", ".join(f"{name} {number}" for name, number in record().versions.items())
print(f"{record().gpu}, {record().date}, {versions}")
bandwidth, fp16_rate = record().bytes_per_second, record().fp16_per_second
print(f"peaks by its driver: {bandwidth / 1e12:.2f} TB/s, {fp16_rate / 1e12:.0f} TFLOP/s in fp16")

# %% [markdown]
# In all that follows, $X$ is $[M, K]$ with one row per token, $W$ is $[N, K]$, and "times as fast" compares with cuBLAS on dense fp16.

# %% [markdown] lang="zh"
# 下文中 $X$ 的形状是 $[M, K]$，一行对应一个 token；$W$ 的形状是 $[N, K]$；“几倍速”都是相对 cuBLAS 的稠密 fp16 而言。

# %% [markdown]
# ## 1. Fuse the rescaling: it saves time and memory
#
# **The claim.** Dynamic int8 quantisation has three steps: quantise $X$, multiply into int32, rescale to floating point. If they run
# one after another, the int32 product is stored in memory, and peak memory goes *up*. In one fused kernel it never reaches memory.
#
# *Source: lecture 7 of GPU MODE, "Quantization: CUDA vs Triton" by Charles Hernandez, according to two sets of notes.*
# Its numbers are for Segment Anything with ViT-H, batch 16:

# %% [markdown] lang="zh"
# ## 1. 融合反量化：既省时间又省显存
#
# **结论。** int8 动态量化分三步：量化 $X$，乘加到 int32，再乘 scale 反量化回浮点。三步分开做，int32 的乘积要落到显存里，
# 峰值显存反而**上升**；融合成一个 kernel，它就根本不会写出去。
#
# 出处：GPU MODE 第 7 讲 “Quantization: CUDA vs Triton”（Charles Hernandez），据两份课程笔记。
# 其中的数据来自 Segment Anything（ViT-H，batch 16）：

# %%
lecture = {
    "16 bits": (785.3, 15.28), "int8, three steps": (731.6, 18.63), "int8, fused": (695.1, 14.94)
}
for name, (milliseconds, gigabytes) in lecture.items():
    slower, larger = milliseconds / lecture["16 bits"][0], gigabytes / lecture["16 bits"][1]
    print(f"{name:18} {milliseconds:6.1f} ms {slower - 1:+6.1%}   {gigabytes:5.2f} GB {larger - 1:+6.1%}   {1 / slower:.3f} times as fast")

# %% [markdown]
# **Predict.** One linear layer on an H200, $M = N = K = 4096$. How many times as fast is a fused Triton kernel as the three
# steps in eager PyTorch?

# %% [markdown] lang="zh"
# **预测。** H200 上的一个线性层，$M = N = K = 4096$。融合的 Triton kernel 是 PyTorch eager 三步做法的几倍速？

# %% solution="claims_fusion"
guess = None  # 1.0 is equally fast
### BEGIN SOLUTION
guess = 1.2
### END SOLUTION
lock("fusion", guess, "times as fast as the three steps")

# %%
said = reveal("fusion")
STEPS = "quantise + _int_mm + rescale"
names = {
    "three steps, eager": f"{STEPS}, eager",
    "three steps, compiled": f"{STEPS}, torch.compile",
    "fused": "solution",
}
found = {name: measured("w8a8", key, M=4096)[0] for name, key in names.items()}
said.against(found["three steps, eager"].time_us / found["fused"].time_us)
times = {name: entry.time_us for name, entry in found.items()}
times["cuBLAS fp16"] = found["fused"].cublas_us
pictures.bars(times, "microseconds", "W8A8, 4096 tokens")

# %%
after("fusion")
space = {name: entry.extra_bytes / 1e6 for name, entry in found.items()}
print(f"the int32 product is {4 * 4096**2 / 1e6:.1f} MB, Y in fp16 {2 * 4096**2 / 1e6:.1f} MB")
pictures.bars(space, "megabytes allocated during the call", "W8A8, 4096 tokens")

# %%
after("fusion")
fused = measured("w8a8", "solution")
steps = {name: measured("w8a8", f"{STEPS}, {name}") for name in ("eager", "torch.compile")}
verdict("Fusing the rescaling saves time and memory", {
    f"{a.M} token{'s' * (a.M > 1)}, {name}": a.time_us < b.time_us and a.extra_bytes < b.extra_bytes
    for name, entries in steps.items() for a, b in zip(fused, entries)
})
verdict("Int8 in three steps is already faster than fp16, as in the lecture", {
    f"{b.M} token{'s' * (b.M > 1)}, {name}": b.ratio > 1 for name, entries in steps.items() for b in entries
})

# %% [markdown]
# Compare the second verdict with the lecture's table, where int8 in three steps was faster than 16 bits. And note what is *not* the same
# here: the fused kernel quantises $X$ inside as well, while the three steps do that in a pass of their own.
#
# **The lecture's own table** needs the whole model: `python -m bench encoder` runs ViT-H on a GPU, in 16 bits, in three steps and
# fused. The next cell shows the results.

# %% [markdown] lang="zh"
# 拿第二条检验结果和讲座的表对比一下：在那张表里，int8 分三步做就已经比 16 位快。还要注意这里有哪些地方**并不相同**：
# 融合的 kernel 连 $X$ 的量化也放在里面，而三步做法为此要单独走一遍。
#
# **那张表本身**要跑整个模型：`python -m bench encoder` 在 GPU 上跑 ViT-H，分别用 16 位、三步做法和融合的 kernel。
# 下一个单元显示结果。

# %%
encoder = whole_model("encoder")
if encoder:
    rows = {entry.contestant: entry for entry in encoder.timed}
    title = f"ViT-H, batch 16, {encoder.gpu}"
    display(
        pictures.bars({name: entry.time_us / 1e3 for name, entry in rows.items()}, "milliseconds", title),
        pictures.bars({name: entry.peak_bytes / 1e9 for name, entry in rows.items()}, "peak memory, GB", title),
    )
    pairs = {
        "eager": ("int8, three steps", "int8, fused"),
        "compiled": ("int8, three steps, torch.compile", "int8, fused, torch.compile around it"),
    }
    both = {name: (rows[a], rows[b]) for name, (a, b) in pairs.items() if a in rows and b in rows}
    verdict("Fusing saves time and memory in a whole encoder", {
        name: b.time_us < a.time_us and b.peak_bytes < a.peak_bytes for name, (a, b) in both.items()
    })
    int8 = [name for name in rows if name.startswith("int8")]
    alike = {name: "fp16, torch.compile" if "torch.compile" in name else "fp16" for name in int8}
    verdict("Dynamic int8 makes a whole encoder faster than fp16, eager or compiled alike", {
        name: rows[name].time_us < rows[fp16].time_us for name, fp16 in alike.items() if fp16 in rows
    })

# %% [markdown]
# A calculation shows whether the lecture's table is plausible. ViT-H, the image encoder, has 32 blocks of width 1280, each with four
# linear layers; an image has 64 x 64 tokens.

# %% [markdown] lang="zh"
# 讲座的那张表是否合理，也可以用算术看看。图像编码器 ViT-H 有 32 个 block，宽度 1280，每个 block 有四个线性层；一张图像是 64 x 64 个 token。

# %%
tokens, width, blocks = 16 * 64 * 64, 1280, 32
outputs = {"qkv": 3 * width, "projection": width, "mlp in": 4 * width, "mlp out": width}
largest = 4 * tokens * max(outputs.values())
print(f"the largest int32 product: {largest / 1e9:.2f} GB; the lecture's peak rose by {18.63 - 15.28:.2f} GB")
traffic = blocks * sum(2 * 4 * tokens * n for n in outputs.values())
print(f"written and read again in all blocks: {traffic / 1e9:.0f} GB")
for speed in (2.0e12, bandwidth):
    print(f"  at {speed / 1e12:.1f} TB/s that is {1e3 * traffic / speed:.0f} ms; the lecture saved {731.6 - 695.1:.1f} ms")

# %% [markdown]
# The order of magnitude fits. One int32 product explains part of the rise, not all of it: a rescaled copy can exist at the same time.
# The notes do not say which GPU it was and which layers were quantised, so the calculation ends here.
#
# **On your GPU:**

# %% [markdown] lang="zh"
# 数量级对得上。单个 int32 乘积只能解释上升的一部分：反量化之后的那一份可能同时还在显存里。用的是哪种 GPU、量化了哪些层，
# 笔记里没有写，所以算术只能走到这里。
#
# **在你的 GPU 上：**

# %%
if gpu_here():
    x = torch.randn(4096, 4096, device=device).half()
    w = torch.randint(-127, 128, (4096, 4096), device=device, dtype=torch.int8)
    s, t = x.abs().amax(dim=1, keepdim=True).float() / 127, torch.rand(4096, device=device)
    q = (x / s).round().clamp(-128, 127).to(torch.int8)
    product = torch._int_mm(q, w.t())
    parts = {
        "quantise": lambda: (x / s).round().clamp(-128, 127).to(torch.int8),
        "int8 product": lambda: torch._int_mm(q, w.t()),
        "rescale": lambda: (product * s * t).half(),
        "fp16 product": lambda: x @ x.t(),
    }
    for name, run in parts.items():
        print(f"{name:13} {microseconds(run):8.1f} us, {megabytes(run):6.1f} MB")

# %% [markdown]
# ## 2. Int4 is slow in Triton and fast in CUDA
#
# **The claim.** Triton has no int4 type. Packing and unpacking by hand made its int4 kernel very slow, while a kernel
# written in CUDA was the fastest of all.
#
# *Source: the same lecture. The CUDA kernel is the one by Jeff Johnson that ships with PyTorch as tinygemm.*
#
# **Predict.** One token, $N = K = 4096$. How many times as fast as cuBLAS fp16 is the best Triton kernel that we know?

# %% [markdown] lang="zh"
# ## 2. int4 用 Triton 写就慢，用 CUDA 写就快
#
# **结论。** Triton 没有 int4 类型，只能手工打包和拆包，因此它的 int4 kernel 非常慢；而用 CUDA 写的 kernel 是所有方案里最快的。
#
# 出处：同一讲。那个 CUDA kernel 由 Jeff Johnson 编写，以 tinygemm 之名随 PyTorch 发布。
#
# **预测。** 一个 token，$N = K = 4096$。我们所知最好的 Triton kernel 是 cuBLAS fp16 的几倍速？

# %% solution="claims_int4"
guess = None  # 4 would be the ratio of the bytes
### BEGIN SOLUTION
guess = 1.0
### END SOLUTION
lock("int4", guess, "times as fast as cuBLAS fp16")

# %%
said = reveal("int4")
contestants = {
    "the first Triton kernel": "ladder/w4a16_1_obvious",
    "GemLite, Triton": "GemLite A16W4 g128",
    "tinygemm, CUDA": "tinygemm int4 g128",
    "our solution, Triton": "solution",
}
one = {name: measured("w4a16", key, M=1)[0] for name, key in contestants.items()}
said.against(max(entry.ratio for name, entry in one.items() if "Triton" in name))
speeds = {name: entry.ratio for name, entry in one.items()}
pictures.bars(speeds, "times as fast as cuBLAS fp16", "W4A16, one token")

# %%
after("int4")
cuda = one["tinygemm, CUDA"]
verdict("Int4 is slow in Triton and fast in CUDA", {
    name: entry.time_us > cuda.time_us for name, entry in one.items() if entry is not cuda
})
for name in ("ladder/w4a16_1_obvious", "solution"):
    print(f"{name:24} {measured('w4a16', name, M=1)[0].time_us:6.1f} us")

# %% [markdown]
# The steps of `w4a16.ipynb` lead from the first Triton kernel to the solution: whole words instead of single nibbles, more programs
# along $K$, and weights that stay in registers. All of them are plain Triton.
#
# The comparison is not quite fair. The other kernels have a scale for every 128 weights, ours one per row, so they move a few more
# bytes, and tinygemm takes bf16. Triton and the GPU are also newer than the lecture's.
#
# **On your GPU:** PyTorch's kernel against its own fp16.

# %% [markdown] lang="zh"
# 从最初的 Triton kernel 到参考答案，中间隔着 `w4a16.ipynb` 里的那些步骤：整字读取而不是逐个半字节，沿 $K$ 分给更多程序，
# 权重留在寄存器里。没有一步离开过 Triton。
#
# 有两点保留。对照的几个 kernel 每 128 个权重带一个 scale，我们的是一行一个，所以它们要多搬一些字节；tinygemm 用的是 bf16。
# 另外，这里的 Triton 和 GPU 都比讲座当时的新。
#
# **在你的 GPU 上：** PyTorch 的 int4 kernel 对它自己的 fp16。

# %%
def tinygemm(M, N=4096, K=4096):
    """A call of PyTorch's int4 kernel, and one of the fp16 product of the same size."""
    x, w = (torch.randn(size, K, device=device) for size in (M, N))
    nibbles = torch.randint(0, 16, (N, K // 2, 2), device=device, dtype=torch.uint8)
    packed = torch.ops.aten._convert_weight_to_int4pack(nibbles[..., 0] << 4 | nibbles[..., 1], 8)
    scales = torch.ones(K // 128, N, 2, device=device, dtype=torch.bfloat16)
    x4, x16, w16 = x.bfloat16(), x.half(), w.half().t()
    return (lambda: torch.ops.aten._weight_int4pack_mm(x4, packed, 128, scales)), (lambda: x16 @ w16)


if gpu_here():
    int4, fp16 = (microseconds(run) for run in tinygemm(1))
    print(f"one token: int4 {int4:.1f} us, fp16 {fp16:.1f} us, {fp16 / int4:.2f} times as fast")

# %% [markdown]
# ## 3. More than one token with int4 weights: no efficient solution
#
# **The claim.** Weight-only int4 is for batch size 1. Beyond it no efficient kernel is known.
#
# *Source: the same lecture, among the limits of Triton.*
#
# **Predict.** $N = K = 4096$. Up to how many tokens is the best int4 kernel faster than cuBLAS fp16?

# %% [markdown] lang="zh"
# ## 3. 多于一个 token 时，int4 权重没有高效的方案
#
# **结论。** 只量化权重的 int4 只适合 batch 为 1；超过 1 就没有已知的高效 kernel。
#
# 出处：同一讲，列在 Triton 的局限里。
#
# **预测。** $N = K = 4096$。最好的 int4 kernel 在多少个 token 以内比 cuBLAS fp16 快？

# %% solution="claims_batch"
guess = None  # tokens
### BEGIN SOLUTION
guess = 1
### END SOLUTION
lock("batch", guess, "tokens")

# %%
import math

said = reveal("batch")
curves = {
    name: [(entry.M, entry.ratio) for entry in measured("w4a16", key, N=4096, K=4096)]
    for name, key in contestants.items() if name != "the first Triton kernel"
}


def crossing(points):
    """Where the ratio falls below 1, linear between the logarithms of neighbours; None when it never does."""
    for (m0, r0), (m1, r1) in zip(points, points[1:]):
        if r0 >= 1 > r1:
            return m0 * (m1 / m0) ** (math.log(r0) / (math.log(r0) - math.log(r1)))
    return None


best = max(filter(None, map(crossing, curves.values())))
said.against(best)
pictures.ratio_curves(curves, "tokens", "W4A16, N = K = 4096", logarithmic=True)

# %%
after("batch")
verdict("With more than one token, int4 weights are not faster than fp16", {
    f"{M} tokens": max(dict(points)[M] for points in curves.values()) < 1
    for M, _ in curves["our solution, Triton"] if M > 1
})

# %% [markdown]
# Why does the number of tokens matter? Because it decides what a launch waits for:

# %% [markdown] lang="zh"
# token 数为什么会有影响？要看一次启动的时间花在哪里：

# %%
after("batch")
for M, _ in curves["our solution, Triton"]:
    bytes16, bytes4 = 2 * (2 * M * 4096 + 4096**2), 2 * 2 * M * 4096 + 4096**2 / 2
    compute = 2 * M * 4096**2 / fp16_rate
    bound = max(bytes16 / bandwidth, compute) / max(bytes4 / bandwidth, compute)
    found = max(dict(points)[M] for points in curves.values())
    print(f"{M:4} tokens: int4 could be {bound:4.2f} times as fast, found {found:4.2f}")

# %% [markdown]
# With few tokens the weight's bytes decide the time, and int4 has a quarter of them. With many, the tensor cores decide it, and they
# multiply fp16 either way; unpacking comes on top. No kernel can change that; it would take an instruction that multiplies int4.
#
# **On your GPU:**

# %% [markdown] lang="zh"
# token 少时，决定时间的是权重的字节数，而它只有四分之一。token 多时，决定时间的是 Tensor Core，不论权重怎么存，乘的都是 fp16；
# 拆包还要另花时间。这一点没有哪个 kernel 能改变，除非有直接乘 int4 的指令。
#
# **在你的 GPU 上：**

# %%
if gpu_here():
    for M in (1, 4, 16, 64, 256):
        int4, fp16 = (microseconds(run) for run in tinygemm(M))
        print(f"{M:4} tokens: int4 {int4:7.1f} us, fp16 {fp16:7.1f} us, {fp16 / int4:.2f} times as fast")

# %% [markdown]
# ## 4. There is no fp16 x int8 instruction, so W8A16 gains nothing
#
# **The claim.** Tensor cores multiply fp16 by fp16 and int8 by int8, but not fp16 by int8. So int8 weights with fp16 activations
# cannot be accelerated on NVIDIA GPUs.
#
# *Source: an article on quantisation from the viewpoint of the matrix product (March 2024). The lecture contradicts it: there, int8
# weights with bf16 activations and one token are "blazing fast" in one formulation, and slower than bf16 in another.*
#
# **Predict.** One token, $N = K = 4096$, on an H200. How many times as fast as fp16 is the fastest W8A16 kernel here?

# %% [markdown] lang="zh"
# ## 4. 没有 fp16 x int8 的指令，所以 W8A16 得不到加速
#
# **结论。** Tensor Core 能做 fp16 乘 fp16、int8 乘 int8，但不能做 fp16 乘 int8。所以 int8 权重配 fp16 激活在 NVIDIA GPU 上无法加速。
#
# 出处：一篇从矩阵乘法角度讨论量化的文章（2024 年 3 月）。讲座与它矛盾：在那里，int8 权重配 bf16 激活、一个 token，
# 换一种写法就“快得惊人”，另一种写法则比 bf16 还慢。
#
# **预测。** 一个 token，$N = K = 4096$，在 H200 上。这里最快的 W8A16 kernel 是 fp16 的几倍速？

# %% solution="claims_w8a16"
guess = None  # 1.0: nothing to gain
### BEGIN SOLUTION
guess = 1.0
### END SOLUTION
lock("w8a16", guess, "times as fast")

# %% [markdown]
# Two answers: measurements on an H200, and a lower bound for the time of any kernel. A launch takes at least as long as its bytes
# need, and at least as long as its products need; in all three kernels the products are fp16:

# %% [markdown] lang="zh"
# 答案有两个：H200 上测得的时间，以及一个任何 kernel 都越不过的界限。一次启动至少要花搬运字节的时间，也至少要花做乘法的时间，
# 而三种情况下乘法都是 fp16：

# %%
said = reveal("w8a16")


def least(M, weight_bytes, N=4096, K=4096):
    """Seconds below which no kernel can be: memory or tensor cores, whichever is slower."""
    moved = 2 * M * K + weight_bytes * N * K + 2 * M * N
    return max(moved / bandwidth, 2 * M * N * K / fp16_rate)


solutions = {name: measured(name, "solution", N=4096, K=4096) for name in ("w8a16", "w4a16")}
ratios = {name: {entry.M: entry.ratio for entry in entries} for name, entries in solutions.items()}
said.against(ratios["w8a16"][1])
print("times as fast as fp16: measured, and at most by the bound")
for M in sorted(ratios["w8a16"].keys() & ratios["w4a16"].keys()):
    bounds = {"w8a16": least(M, 2) / least(M, 1), "w4a16": least(M, 2) / least(M, 0.5)}
    line = [f"{name} {ratios[name][M]:4.2f} (at most {bound:4.2f})" for name, bound in bounds.items()]
    print(f"  {M:4} tokens: " + ", ".join(line))

# %%
after("w8a16")
verdict("W8A16 gains nothing", {f"{M} token{'s' * (M > 1)}": times < 1.1 for M, times in ratios["w8a16"].items()})
one_way, other_way = (measured("w8a16", f"ladder/w8a16_{step}", M=1)[0] for step in ("2_gemv", "3_vectors"))
print(f"one token without a matrix product: {one_way.ratio:.2f} times fp16 written one way, {other_way.ratio:.2f} written another")

# %% [markdown]
# "No instruction, no gain" silently assumes that the products take the time. With few tokens they do not: the weight is converted in
# registers while the next bytes arrive. W4A16 has no instruction of its own either, and its times show the same. With many tokens the
# assumption is right, and so is the claim. And the lecture does not contradict itself: the same sum for one token is slower than fp16
# or much faster, depending on how wide its loads are and how many are in flight at a time.
#
# **On your GPU**, in the lecture's formulation for one token: a sum instead of a matrix product, compiled.

# %% [markdown] lang="zh"
# “没有指令就没有收益”暗含一个前提：时间花在乘法上。token 少时并非如此：权重在寄存器里转换的同时，下一批字节正在路上。
# W4A16 同样没有对应的指令，它的时间说明的是同一件事。token 多时这个前提成立，结论也就成立。讲座里的矛盾其实并不矛盾：
# 同样是一个 token 的求和，落后于 fp16 还是远远超过它，取决于每次读取有多宽、同时有多少次读取在途中。
#
# **在你的 GPU 上**，用讲座里一个 token 的写法：把矩阵乘写成求和，再编译。

# %%
if gpu_here():
    w8 = torch.randint(-127, 128, (4096, 4096), device=device, dtype=torch.int8)
    x, scale = torch.randn(4096, device=device).half(), torch.rand(4096, device=device)
    w16 = w8.half()
    w8a16 = torch.compile(lambda x, w: ((x[None, :].float() * w.float()).sum(1) * scale).half())
    int8, fp16 = microseconds(lambda: w8a16(x, w8)), microseconds(lambda: w16 @ x)
    print(f"one token: W8A16 {int8:.1f} us, fp16 {fp16:.1f} us, {fp16 / int8:.2f} times as fast")

# %% [markdown]
# ## 5. Arithmetic intensity falls when you quantise
#
# **The claim.** With int8 inside and fp16 activations outside, a linear layer has *fewer* operations per byte than in fp16, so
# memory limits it sooner.
#
# *Source: the same article. It has $N$ tokens, $C_i$ inputs, $C_o$ outputs, counts one int8 multiply-add as 1 operation and an
# fp16 one as 2, and arrives at a denominator of $2/N + 1/C_i + 2/C_o$ for int8.*
#
# **Predict.** 16 tokens, 4096 inputs and outputs. What are the operations per byte of W8A8 (fp16 in and out), divided by those of
# fp16, if both count $2MNK$ operations?

# %% [markdown] lang="zh"
# ## 5. 量化之后，算术强度会下降
#
# **结论。** 内部用 int8、外部激活仍是 fp16 时，线性层每字节的运算次数比 fp16 **更少**，所以更早受限于访存。
#
# *出处：同一篇文章。它用 $N$ 表示 token 数，$C_i$、$C_o$ 表示输入和输出通道数；一次 int8 乘加算 1 次运算，一次 fp16 乘加算 2 次，
# 得到 int8 的分母是 $2/N + 1/C_i + 2/C_o$。*
#
# **预测。** 16 个 token，输入输出都是 4096。W8A8（输入输出为 fp16）每字节的运算次数，除以 fp16 的，两者都按 $2MNK$ 计：结果是多少？

# %% solution="claims_intensity"
guess = None  # below 1: intensity falls
### BEGIN SOLUTION
guess = 1.0
### END SOLUTION
lock("intensity", guess, "times the intensity of fp16")

# %% [markdown]
# First the algebra, since the article has a mistake there. A launch moves $2NC_i + C_iC_o + 2NC_o + 2(N + C_o)$ bytes for $NC_iC_o$
# multiply-adds. Divide each term by $NC_iC_o$:
#
# $$\frac{2NC_i}{NC_iC_o} = \frac{2}{C_o}, \qquad \frac{C_iC_o}{NC_iC_o} = \frac{1}{N}, \qquad \frac{2NC_o}{NC_iC_o} = \frac{2}{C_i}$$
#
# The denominator is $1/N + 2/C_i + 2/C_o$ and two small terms. The factor 2 belongs to the activations, which stay fp16, and not to
# $1/N$, which is the weight. With few tokens $1/N$ dominates, so the mistake reverses the answer:

# %% [markdown] lang="zh"
# 先看代数，因为文章在这里写错了。它要搬运 $2NC_i + C_iC_o + 2NC_o + 2(N + C_o)$ 字节，做 $NC_iC_o$ 次乘加。
# 每一项都除以 $NC_iC_o$：
#
# $$\frac{2NC_i}{NC_iC_o} = \frac{2}{C_o}, \qquad \frac{C_iC_o}{NC_iC_o} = \frac{1}{N}, \qquad \frac{2NC_o}{NC_iC_o} = \frac{2}{C_i}$$
#
# 分母应当是 $1/N + 2/C_i + 2/C_o$，外加两个小项。系数 2 属于激活，因为激活仍是 fp16；它不属于代表权重的 $1/N$。
# token 少时 $1/N$ 就是全部，所以这个笔误会把答案反过来：

# %%
def by_article(N, Ci, Co, weight=1, inputs=2):
    """int8 over fp16 as the article counts; weight and inputs stand above N and above C_i."""
    fp16 = 1 / (1 / N + 1 / Ci + 1 / Co)
    small = 2 / (N * Ci) + 2 / (Ci * Co)
    return (1 + 2 / Co + 4 / Ci) / (weight / N + inputs / Ci + 2 / Co + small) / fp16


def counted_alike(M, K, N):
    """int8 over fp16, 2MNK operations in both: the ratio of the bytes."""
    return (2 * M * K + 2 * N * K + 2 * M * N) / (2 * M * K + N * K + 2 * M * N + 4 * (M + N))


said = reveal("intensity")
said.against(counted_alike(16, 4096, 4096))
print("tokens   as printed   put right   counted alike")
for M in (1, 16, 256, 4096):
    printed, right = by_article(M, 4096, 4096, weight=2, inputs=1), by_article(M, 4096, 4096)
    print(f"{M:6}   {printed:10.2f}   {right:9.2f}   {counted_alike(M, 4096, 4096):13.2f}")

# %%
after("intensity")
verdict("Quantising lowers the arithmetic intensity (by more than 2 %)", {
    **{f"M = {M}, the article's count": by_article(M, 4096, 4096) < 0.98 for M in (1, 16, 256, 4096)},
    **{f"M = {M}, both counted alike": counted_alike(M, 4096, 4096) < 0.98 for M in (1, 16, 256, 4096)},
})

# %% [markdown]
# So the answer depends on how operations are counted, which makes a poor law. Time does not depend on that. Int8 products take half
# as long; bytes shrink by less than half, because activations stay fp16. The balance therefore does tilt towards memory with many
# tokens, which is what the article wanted to say. With few tokens both halve, and a launch could be nearly twice as fast:

# %% [markdown] lang="zh"
# 可见这取决于怎么计数；随计数方式而变的量成不了定律，时间则不随它变。int8 乘法的时间减半；字节数减少不到一半，因为激活仍是 fp16。
# 所以 token 多时，天平确实向访存一侧倾斜，这正是文章想说的。token 少时两者都减半，一次启动最多可以快将近一倍：

# %%
for entry in measured("w8a8", "solution", N=4096, K=4096):
    M = entry.M
    fp16 = max(2 * (2 * M * 4096 + 4096**2) / bandwidth, entry.operations / fp16_rate)
    int8 = max(entry.bytes_moved / bandwidth, entry.operations / (2 * fp16_rate))  # int8 at twice the rate of fp16
    print(f"{M:4} tokens: at most {fp16 / int8:.2f} times as fast as fp16 by the roofline, measured {entry.ratio:.2f}")

# %% [markdown]
# A bound says what is possible, not what a kernel achieves: quantising $X$ takes time too, and the bound ignores it.
#
# ### Exercise: int8 between the layers too
#
# **The claim goes on.** ZeroQuant lets the activations travel as int8 as well: the operator before a linear layer writes $X$ quantised, and
# the layer rescales and quantises its own $Y$. So the intensity is about that of fp16 again, and int8 can show its speed.
#
# Count it yourself: a W8A8 layer with 4096 inputs and 4096 outputs, where $X$, $W$ and $Y$ are all int8, with an fp32 scale for each
# row of $X$ and of $W$. How many MB ($10^6$ bytes) must a launch move with 1 token, and with 1024? How many operations is that for each
# byte, with $2MNK$ operations as for fp16? Write arithmetic, such as `(4096 * 4096 + ...) / 1e6`.

# %% [markdown] lang="zh"
# 界限说的是可能做到什么，不是某个 kernel 做到了什么：量化 $X$ 也要时间，而界限没有算它。
#
# ### 练习：层与层之间也用 int8
#
# **结论的后一半。** ZeroQuant 让激活在算子之间也以 int8 传递：线性层前面的算子写出的 $X$ 已经量化，线性层自己也把 $Y$ 乘回 scale、再量化。
# 这样算术强度又回到 fp16 的水平，int8 的高速率才用得上。
#
# 自己算一算：一个输入、输出都是 4096 的 W8A8 层，$X$、$W$、$Y$ 都是 int8，$X$ 和 $W$ 的每一行各有一个 fp32 的 scale。
# 1 个 token 和 1024 个 token 时，一次启动至少要搬运多少 MB（$10^6$ 字节）？运算次数和 fp16 一样按 $2MNK$ 计，每个字节做多少次运算？
# 可以写算式，例如 `(4096 * 4096 + ...) / 1e6`。

# %% solution="claims_zeroquant"
megabytes_moved = {1: None, 1024: None}  # by the number of tokens
per_byte = {1: None, 1024: None}  # operations per byte
### BEGIN SOLUTION
megabytes_moved = {M: (M * 4096 + 4096**2 + M * 4096 + 4 * (M + 4096)) / 1e6 for M in (1, 1024)}
per_byte = {M: 2 * M * 4096**2 / (1e6 * moved) for M, moved in megabytes_moved.items()}
### END SOLUTION
for M in (1, 1024):
    lock(f"zeroquant_bytes_{M}", megabytes_moved[M], f"MB with {M} token{'s' * (M > 1)}")
    lock(f"zeroquant_intensity_{M}", per_byte[M], f"operations per byte with {M} token{'s' * (M > 1)}")

# %%
def layer_bytes(M, N=4096, K=4096, weight=1, x=2, y=2, scales=4):
    """Bytes that a linear layer must move, from those of each element and of each scale."""
    return x * M * K + weight * N * K + y * M * N + scales * (M + N)


layers = {
    "fp16": {"weight": 2, "scales": 0},
    "w8a8, X and Y fp16": {},
    "w8a8, X int8, Y fp16": {"x": 1},
    "w8a8, X and Y int8": {"x": 1, "y": 1},
}
for M in (1, 1024):
    moved = layer_bytes(M, **layers["w8a8, X and Y int8"])
    reveal(f"zeroquant_bytes_{M}").against(moved / 1e6, within=1.01)
    reveal(f"zeroquant_intensity_{M}").against(2 * M * 4096**2 / moved, within=1.01)
print(f"{'':21}  1 token               1024 tokens")
for name, of in layers.items():
    found = [(layer_bytes(M, **of), 2 * M * 4096**2) for M in (1, 1024)]
    print(f"{name:21}" + "".join(f"{moved / 1e6:7.2f} MB {done / moved:7.1f} /byte" for moved, done in found))

# %%
after("zeroquant_intensity_1024")


def int8_bound(M, **of):
    """Seconds below which no W8A8 layer can be on this GPU."""
    return max(layer_bytes(M, **of) / bandwidth, M * 4096**2 / fp16_rate)


gains = {M: int8_bound(M) / int8_bound(M, x=1, y=1) for M in (1, 16, 64, 256, 1024, 4096)}
print("the bound's time, X and Y fp16 over int8: " + ", ".join(f"{M}: {gain:.2f}" for M, gain in gains.items()))
verdict("With int8 between the layers, the operations per byte are at least those of fp16", {
    f"{M} token{'s' * (M > 1)}": layer_bytes(M, x=1, y=1) <= layer_bytes(M, **layers["fp16"]) for M in gains
})
verdict("So the layer can be faster than with fp16 between the layers (by more than 2 %)", {
    f"{M} token{'s' * (M > 1)}": gain > 1.02 for M, gain in gains.items()
})

# %% [markdown]
# The bytes do halve, and counted alike the intensity is twice that of fp16; in the article's count, where an int8 operation is half a one, it
# is that of fp16. But look where it helps on this GPU. With few tokens nearly all bytes are the weight's. With many the products take the
# time, and what $X$ and $Y$ weigh is hidden behind them. Only in between does the layer itself gain.
#
# Two things are not in the count. Where $X$ comes as int8, the kernel does not quantise it again in every program, as yours in `w8a8` does. And
# a program has one tile of $Y$, while a token's scale depends on the whole row: to write $Y$ as int8 with dynamic scales
# takes another pass. Reading int8 and writing fp16, the third row of the table, needs none.

# %% [markdown] lang="zh"
# 字节数确实减半；按同样的办法计数，算术强度是 fp16 的两倍，按文章的算法（一次 int8 运算算半次），则与 fp16 相当。
# 但要看它在这块 GPU 上对谁有用。token 少时，字节几乎全是权重的；token 多时，时间花在乘法上，$X$ 和 $Y$ 的字节藏在乘法后面。
# 只有在两者之间，这一层自己才快一些。
#
# 有两件事没有算进去。$X$ 传进来就是 int8，kernel 就不必像 `w8a8` 里那样，在每个程序里把它重新量化一遍。另外，一个程序只有 $Y$ 的一个 tile，
# 而一个 token 的 scale 取决于整行：要用动态的 scale 把 $Y$ 写成 int8，就得再走一遍。读 int8、写 fp16，也就是表中的第三行，则不需要。

# %% [markdown]
# ## 6. Zeros do not pay below 90 %
#
# **The claim.** A sparse weight needs more than 90 % zeros before skipping them is faster than multiplying them.
#
# *Source: a rule of thumb about sparsity in general. The lecture says only that today's hardware favours dense products.*
#
# **Predict.** Zeros in blocks of 32 x 32, weight 1024 x 1024, 8192 tokens. From what percentage of zeros on is the best kernel faster
# than cuBLAS?

# %% [markdown] lang="zh"
# ## 6. 零不到 90 % 就不划算
#
# **结论。** 稀疏权重里的零要超过 90 %，跳过它们才比照乘不误更快。
#
# 出处：谈到稀疏时流传的一条经验。讲座只说，如今的硬件偏爱稠密乘法。
#
# **预测。** 零按 32 x 32 的块分布，权重 1024 x 1024，8192 个 token。零占百分之多少以上，最好的 kernel 才更快？

# %% solution="claims_zeros"
guess = None  # per cent
### BEGIN SOLUTION
guess = 90
### END SOLUTION
lock("zeros", guess, "% zeros")

# %%
kernels = {
    "our solution": "solution",
    "PyTorch, parameters searched": "bsr_dense_addmm, tuned",
    "PyTorch, as it comes": "bsr_dense_addmm, stock",
    "F.linear, as it comes": "F.linear, BSR weight",
}


def over_zeros(key, M):
    """(per cent of zeros, ratio to cuBLAS) of a contestant."""
    return [(100 * entry.sparsity, entry.ratio) for entry in measured("dds", key, M=M)]


curves = {name: over_zeros(key, 8192) for name, key in kernels.items()}


def break_even(points):
    """Where the ratio reaches 1; None when it does not within what was measured."""
    for (s0, r0), (s1, r1) in zip(points, points[1:]):
        if r0 < 1 <= r1:
            return s0 + (s1 - s0) * math.log(r0) / (math.log(r0) - math.log(r1))
    return None


said = reveal("zeros")
said.against(min(filter(None, map(break_even, curves.values()))), within=1.05)
pictures.ratio_curves(curves, "% zeros", "Blocks of 32 x 32, 1024 x 1024, 8192 tokens")

# %%
after("zeros")
print("faster than cuBLAS from ... % zeros on (-: not up to 90 %)")
print(f"{'tokens':29}" + "".join(f"{M:8}" for M in (128, 1024, 8192, 65536)))
for name, key in kernels.items():
    found = [break_even(over_zeros(key, M)) for M in (128, 1024, 8192, 65536)]
    print(f"{name:29}" + "".join(f"{at:8.0f}" if at else f"{'-':>8}" for at in found))
verdict("With 8192 tokens, zeros do not pay below 90 %", {
    name: max(ratio for zeros, ratio in points if zeros < 90) < 1
    for name, points in curves.items()
})

# %% [markdown]
# The zeros are the same for all four kernels, so the claim is about kernels, not about zeros.
#
# It also does not say which zeros. These are whole blocks, which a kernel can skip. Scattered zeros are another matter, and **we have
# not measured them**; nor do these numbers say whether a pruned model is still any good.
#
# **On your GPU:**

# %% [markdown] lang="zh"
# 四种情况里的零完全一样，所以这句话说的是 kernel，不是零。
#
# 它还略去了零是怎样分布的。这里是整块的零，Tensor Core 可以跳过。散落各处的零是另一回事，**这里没有任何记录测过它**；
# 这些数字也不说明剪枝之后的模型是否还好用。
#
# **在你的 GPU 上：**

# %%
if gpu_here():
    x, dense = torch.randn(8192, 1024, device=device).half(), torch.randn(1024, 1024, device=device).half()
    fp16 = microseconds(lambda: torch.nn.functional.linear(x, dense))
    for zeros in (0.5, 0.7, 0.8, 0.9, 0.95):
        present = torch.rand(32, 32, device=device) >= zeros
        weight = (dense * present.repeat_interleave(32, 0).repeat_interleave(32, 1)).to_sparse_bsr((32, 32))
        spent = microseconds(lambda: torch.nn.functional.linear(x, weight))
        print(f"{zeros:.0%} zeros: {fp16 / spent:.2f} times as fast as dense fp16")

# %% [markdown]
# ## One more mistake: what LLM.int8() splits
#
# The article says that LLM.int8() sorts *tokens*: those with outliers are computed in fp16, the others in int8. The paper
# (Dettmers et al., 2022) splits *feature columns*: the few columns of $X$ that hold outliers, with the matching columns of $W$, are
# multiplied in fp16, and all the rest in int8. The difference is not small, because an outlier column has large values for nearly all tokens:

# %% [markdown] lang="zh"
# ## 还有一处笔误：LLM.int8() 拆分的是什么
#
# 文章说 LLM.int8() 按 *token* 分类：含离群值的用 fp16 算，其余用 int8 算。论文（Dettmers 等，2022）拆分的其实是**特征列**：
# $X$ 中少数含离群值的列，连同 $W$ 中对应的列，用 fp16 相乘，其余全部用 int8。差别不小，因为离群的列几乎在每个 token 上都有很大的值：

# %%
torch.manual_seed(0)
x = torch.randn(64, 512)
x[:, [17, 301, 440]] *= 30  # three outlier features
outlier = x.abs() > 6
tokens, columns = (outlier.any(axis).float().mean() for axis in (1, 0))
print(f"tokens that hold an outlier: {tokens:.0%}; columns that hold one: {columns:.1%}")


def int8_error(part, w):
    """Norm of what is wrong in part @ w.T with a scale for each token and each channel."""
    s, t = (matrix.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127 for matrix in (part, w))
    return (((part / s).round() * s) @ ((w / t).round() * t).T - part @ w.T).norm()


w = torch.randn(256, 512)
rest = ~outlier.any(0)
whole, split = (error / (x @ w.T).norm() for error in (int8_error(x, w), int8_error(x[:, rest], w[:, rest])))
print(f"error with everything in int8: {whole:.2%}; with the outlier columns in fp16: {split:.2%}")

# %% [markdown]
# Sorting tokens would leave nothing for int8 here. Splitting columns leaves almost everything for int8, with a small part of the error.
#
# ## 7. Smaller claims, and what the definitions hide
#
# | the sources say | what to look at |
# |---|---|
# | $s = (r_\max - r_\min) / (Q_\max - Q_\min) \approx \lvert r\rvert_\max / Q_\max$ | the first cell below: the two agree only if the values lie evenly around 0 |
# | $q = \mathrm{clamp}(\mathrm{round}(x / s) + z)$ | the same cell: what $z$ is for. The labs have $z = 0$, gptq has one per group |
# | a scale for the whole tensor gives large errors | the same cell, with one row 30 times as large as the others |
# | scales of rows and columns are $\mathrm{diag}(p)\,X$, $Y = \mathrm{diag}(p)\,\hat Y\,\mathrm{diag}(r)$ | the second cell: no matrix is multiplied, `p[:, None] * X` is a broadcast |
# | int8 is four times as fast as bf16 | the peak rate of int8 is *twice* that of 16-bit floats. On our H200 `torch._int_mm` was @bench{ratio("w8a8", "m512_n4096_k4096", "torch._int_mm alone"):.2f} times as fast as cuBLAS fp16 with 512 tokens, and @bench{ratio("w8a8", "m4096_n4096_k4096", "torch._int_mm alone"):.2f} times with 4096 (N = K = 4096): the fourth cell has all sizes |
# | dynamic int8 takes 15 to 20 % more memory | 21.9 % by the lecture's own table, in the same cell |
# | fused, it is 14 % faster | by that table it takes 11.5 % less time than 16 bits, which makes it 13.0 % faster, and 5.0 % less than the three steps: none of these is 14 |
# | in Triton the rescaling is one line | it is: step 5 of `w8a8`. The kernel around it is the notebook |
# | NVIDIA took int4 out of the H100 and moved to FP4 | tensor cores multiplied int4 from Turing to Ada; Hopper left it out, and FP4 came with Blackwell. So the H100 has neither: `w4a16` multiplies in fp16 |
# | cuSPARSE takes fp32 only | the last cell, on a GPU: PyTorch gives a BSR and a CSR matrix of fp16 to it |
# | COO, CSR, CSC, BSR | the third cell counts their bytes. CSC is CSR of the transpose; only BSR has tiles for `tl.dot` |
#
# Two formats that the labs leave out: **NF4** has sixteen values that are not evenly spaced but split a normal distribution into
# equal parts; it is unpacked with a look-up instead of a multiplication. **Powers of two**, $x \approx \pm 2^q$, turn multiplications
# into shifts and have most of their levels near 0. A tensor core multiplies neither, so both are unpacked to fp16, like int4.
#
# Where the labs' contract differs from the sources:
#
# | sources | here | why |
# |---|---|---|
# | scales $[M, 1]$ and $[1, N]$ | vectors `[M]` and `[N]` | one stride less; you write the broadcast |
# | scales in the type of X | fp32 in w8a8 | fp16 loses small scales and overflows with large ones |
# | indices int64, as PyTorch makes them | int32 | half the bytes, and Triton adds them without widening |
# | one version of Triton | 3.6 to 3.9 | the machines of a class differ |

# %% [markdown] lang="zh"
# 按 token 分类，这里就没有什么可以留给 int8；按列拆分，几乎全部都可以留给 int8，误差也只剩一小部分。
#
# ## 7. 几个小一点的说法，以及定义里没有明说的事
#
# | 资料里的说法 | 看什么 |
# |---|---|
# | $s = (r_\max - r_\min) / (Q_\max - Q_\min) \approx \lvert r\rvert_\max / Q_\max$ | 下面第一个单元：只有数值关于 0 大致对称时，两者才接近 |
# | $q = \mathrm{clamp}(\mathrm{round}(x / s) + z)$ | 同一个单元：$z$ 有什么用。实验里 $z = 0$，gptq 每组有一个 |
# | 整个张量只用一个 scale，误差很大 | 同一个单元：其中一行是别的行的 30 倍 |
# | 行和列的 scale 就是 $\mathrm{diag}(p)\,X$，$Y = \mathrm{diag}(p)\,\hat Y\,\mathrm{diag}(r)$ | 第二个单元：并没有做矩阵乘，`p[:, None] * X` 只是广播 |
# | int8 是 bf16 的四倍速 | int8 的峰值是 16 位浮点数的**两倍**。在我们的 H200 上，N = K = 4096 时，`torch._int_mm` 对 cuBLAS fp16 的倍数：512 个 token 时是 @bench{ratio("w8a8", "m512_n4096_k4096", "torch._int_mm alone"):.2f}，4096 个时是 @bench{ratio("w8a8", "m4096_n4096_k4096", "torch._int_mm alone"):.2f}；其余规模见下面第四个单元 |
# | 动态 int8 多用 15 到 20 % 的显存 | 按讲座自己的表是 21.9 %，算在同一个单元里 |
# | 融合之后快 14 % | 按那张表，时间比 16 位少 11.5 %，即速度快 13.0 %；比三步做法少 5.0 %。没有一个是 14 |
# | 用 Triton 做反量化只要一行 | 确实：就是 `w8a8` 的第 5 步。它外面的 kernel 则是整个 notebook |
# | NVIDIA 在 H100 上去掉了 int4，改用 FP4 | Turing 到 Ada 的 Tensor Core 能乘 int4，Hopper 去掉了，FP4 则从 Blackwell 开始。H100 两样都没有，所以 `w4a16` 用 fp16 相乘 |
# | cuSPARSE 只支持 fp32 | 最后一个单元（需要 GPU）：PyTorch 把 fp16 的 BSR 和 CSR 矩阵交给它 |
# | COO、CSR、CSC、BSR | 第三个单元数它们的字节。CSC 就是转置的 CSR；只有 BSR 有能交给 `tl.dot` 的 tile |
#
# 还有两种格式，实验里没有用。**NF4** 的十六个值不是等间距的，而是把正态分布分成概率相等的几份：拆包时查表，而不是相乘。
# **二的幂** $x \approx \pm 2^q$ 把乘法变成移位，刻度集中在 0 附近。两者都不能直接交给 Tensor Core，所以和 int4 一样，要先变成 fp16。
#
# 实验的接口与资料不同的地方：
#
# | 资料 | 这里 | 原因 |
# |---|---|---|
# | scale 的形状是 $[M, 1]$ 和 $[1, N]$ | 向量 `[M]` 和 `[N]` | 少一个 stride；广播由你来写 |
# | scale 与 X 同类型 | w8a8 用 fp32 | fp16 会丢掉很小的 scale，很大的会溢出 |
# | 下标是 int64，PyTorch 默认如此 | int32 | 字节减半，Triton 计算地址时也不必加宽 |
# | 只用一个版本的 Triton | 3.6 到 3.9 | 各人的机器不一样 |

# %%
def relative_error(x, s, z=0.0):
    """Norm of what quantising to int8 with scale s and zero point z loses, over that of x."""
    q = ((x / s).round() + z).clamp(-128, 127)
    return float((s * (q - z) - x).norm() / x.norm())


torch.manual_seed(0)
rows = {"normal": torch.randn(64, 512), "after a ReLU": torch.randn(64, 512).relu()}
rows["one large row"] = torch.cat([rows["normal"][:1] * 30, rows["normal"][1:]])
for name, x in rows.items():
    largest, low, high = x.abs().amax(1, keepdim=True), x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    span = (high - low) / 255
    choices = {
        "one scale for all": relative_error(x, x.abs().max() / 127),
        "per row, |r|max / 127": relative_error(x, largest / 127),
        "per row, (max - min) / 255, z = 0": relative_error(x, span),
        "the same with its zero point": relative_error(x, span, (-128 - low / span).round()),
    }
    print(f"{name:14}" + "; ".join(f"{choice}: {error:.2%}" for choice, error in choices.items()))

# %%
p, x = torch.rand(4), torch.randn(4, 6)
print("diag(p) X is p[:, None] * X:", torch.equal(torch.diag(p) @ x, p[:, None] * x))

# %%
def sparse_bytes(size, block, kept):
    """Bytes of a square fp16 matrix that keeps this share of its blocks, with int32 indices, by format."""
    blocks = round(kept * (size // block) ** 2)
    values = blocks * block**2
    return {
        "dense": 2 * size**2,
        "COO": values * (2 + 4 + 4),
        "CSR": values * (2 + 4) + 4 * (size + 1),
        "CSC": values * (2 + 4) + 4 * (size + 1),
        "BSR": values * 2 + 4 * blocks + 4 * (size // block + 1),
    }


for kept in (0.1, 0.5):
    print(f"{kept:.0%} of the blocks kept: {sparse_bytes(1024, 32, kept)}")

# %%
(time16, space16), (time_steps, space_steps), (time_fused, _) = lecture.values()
print(f"the lecture's int8 in three steps: {space_steps / space16 - 1:+.1%} memory")
print(
    f"its fused int8: {time_fused / time16 - 1:+.1%} time, {time16 / time_fused - 1:+.1%} speed; "
    f"beside three steps {time_fused / time_steps - 1:+.1%} time"
)
for entry in measured("w8a8", "torch._int_mm alone"):  # it takes more than 16 rows: fewer were padded to 32
    print(f"_int_mm, {entry.M} x {entry.N} x {entry.K}: {entry.ratio:.2f} times as fast as cuBLAS fp16")

# %%
if gpu_here():
    dense = torch.randn(1024, 1024, device=device).half()
    dense.view(32, 32, 32, 32).masked_fill_(torch.rand(32, 1, 32, 1, device=device) > 0.1, 0)  # 9 of 10 blocks of 32 x 32
    x = torch.randn(1024, 64, device=device).half()
    for name, sparse in (("CSR", dense.to_sparse_csr()), ("BSR", dense.to_sparse_bsr((32, 32)))):
        try:
            close = torch.allclose(sparse @ x, dense @ x, rtol=1e-2, atol=1e-1)
            print(f"{name} of fp16 is multiplied; as the dense product: {close}")
        except RuntimeError as refused:
            print(f"{name} of fp16 is refused: {str(refused).splitlines()[0]}")

# %% [markdown]
# ## To read
#
# - Dettmers et al., [LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale](https://arxiv.org/abs/2208.07339), 2022
# - Xiao et al., [SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models](https://arxiv.org/abs/2211.10438), 2023
# - Yao et al., [ZeroQuant: Efficient and Affordable Post-Training Quantization for Large-Scale Transformers](https://arxiv.org/abs/2206.01861), 2022
# - Frantar et al., [GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers](https://arxiv.org/abs/2210.17323), 2023
# - Lin et al., [AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration](https://arxiv.org/abs/2306.00978), 2024
#
# `docs/references.md` has the others: Triton, the roofline, block sparsity, the lecture itself.

# %% [markdown] lang="zh"
# ## 延伸阅读
#
# - Dettmers et al., [LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale](https://arxiv.org/abs/2208.07339), 2022
# - Xiao et al., [SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models](https://arxiv.org/abs/2211.10438), 2023
# - Yao et al., [ZeroQuant: Efficient and Affordable Post-Training Quantization for Large-Scale Transformers](https://arxiv.org/abs/2206.01861), 2022
# - Frantar et al., [GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers](https://arxiv.org/abs/2210.17323), 2023
# - Lin et al., [AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration](https://arxiv.org/abs/2306.00978), 2024
#
# 其余的见 `docs/references.md`：Triton、roofline、块稀疏，以及讲座本身。
