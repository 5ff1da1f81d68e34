"""What Triton's compiler says, what it means, and what to do next: a table, tried from the top.

A pattern is searched in "Kind: message", in which types are written as a kernel's author says them: "fp16 [16, 32]".
Braces in a sentence take the groups of the pattern by name, and of the place: {call} the function called there,
{parameters} its parameters, {text} the expression, {left} and {right} the operands of an operator or of tl.dot with
{left_type} and {right_type}. What needs more than words is in `grader.compile_errors.special`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lesson:
    """`node`: kinds of syntax at the place that the lesson is for (names of `ast` classes); empty: any."""

    pattern: str
    cause: str
    next_step: str
    node: tuple[str, ...] = ()


LESSONS = (
    # ---- products
    Lesson(
        r"Both operands must be same dtype\. Got (?P<a>\w+) and (?P<b>\w+)",
        "tl.dot needs both operands in one dtype, found {a} and {b}",
        "convert one of them first: {conversion}",
    ),
    Lesson(
        r"Unsupported (?P<side>lhs|rhs) dtype (?P<dtype>pointers? to .+)",
        "tl.dot got pointers where it needs the values",
        "load the tile first: tl.load({operand}, mask=...)",
    ),
    Lesson(
        r"Unsupported (?P<side>lhs|rhs) dtype (?P<dtype>\w+)",
        "tl.dot does not multiply {dtype}; it takes int8 x int8, or fp16, bf16 or fp32 on both sides",
        "convert the operand: {operand}.to({lab_dtype})",
    ),
    Lesson(
        r"only int8 supported|Unexpected dtype .* for dot",
        "tl.dot multiplies integers only as int8 x int8",
        "convert both operands to tl.int8",
    ),
    Lesson(
        r"out_dtype=bfloat16 is unsupported|out_dtype",
        "tl.dot cannot give its result in this dtype",
        "int8 products are int32 (out_dtype=tl.int32), fp16 products fp32: leave out_dtype out and convert afterwards",
    ),
    Lesson(
        r"Input shapes should have M >= (?P<m>\d+), N >= (?P<n>\d+) and K >= (?P<k>\d+)",
        "this tile is too small for tl.dot, which needs M >= {m}, N >= {n} and K >= {k} for these dtypes{inner}",
        "{deeper}",
    ),
    Lesson(
        r"equal reduction dimensions|First input shape .* and second input shape .* incompatible|must be equal to first dim",
        "tl.dot multiplies [M, K] by [K, N]: the last size of the left operand and the first of the right must agree",
        "check the offsets of both tiles, or turn one round with tl.trans",
    ),
    Lesson(
        r"equal ranks >= 2|Both inputs must be either 2D or 3D",
        "tl.dot needs two tiles of two dimensions",
        "give a vector its second dimension with [:, None] or [None, :], or sum a product with tl.sum(a * b, axis=1)",
    ),
    Lesson(
        r"accumulator shape is incompatible|acc\.type\.shape == ret_ty\.shape",
        "the accumulator that tl.dot gets has another shape or dtype than the product",
        "make it tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32) for int8, dtype=tl.float32 for fp16",
        ("Call",),
    ),
    Lesson(
        r"'MatMult'|MatMult",
        "Triton has no operator @",
        "write tl.dot({left}, {right})",
        ("BinOp",),
    ),
    # ---- tiles
    Lesson(
        r"arange's arguments must be of type tl\.constexpr",
        "tl.arange needs sizes that are known when the kernel is compiled: numbers or tl.constexpr parameters{not_constexpr}",
        "use a constexpr such as BLOCK_K for the length, and add what is known only at run time: first + tl.arange(0, BLOCK_K)",
    ),
    Lesson(
        r"arange's range must be a power of 2|Shape element \d+ must be a power of 2|must be a power of (2|two)",
        "the sizes of a tile must be powers of two{tile_found}",
        "take 16, 32, 64 or 128, and mask what lies beyond the end",
    ),
    Lesson(
        r"arange must fit in int32",
        "tl.arange counts from 0 or more to less than 2^31",
        "count from 0 and subtract: tl.arange(0, SIZE) - SIZE",
    ),
    Lesson(
        r"arange's end argument must be greater",
        "tl.arange(start, end) needs end > start",
        "write tl.arange(0, SIZE)",
    ),
    Lesson(
        r"numel \((?P<count>\d+)\) exceeds triton maximum tensor numel \((?P<limit>\d+)\)",
        "this tile has {count} elements, Triton allows {limit}",
        "use smaller tiles: 64 x 64 or 128 x 128, and loop over K",
    ),
    Lesson(
        r"Shape element (?P<at>\d+) must have type .*(constexpr|int)",
        "the shape of a tile must be known when the kernel is compiled{not_constexpr}",
        "use tl.constexpr parameters, such as (BLOCK_M, BLOCK_N), and mask what lies beyond M and N",
    ),
    Lesson(
        r"dtype must be specified when value is not a tensor|dtype must be specified",
        "{call} needs a dtype",
        "add dtype=tl.float32 (int32 for a sum of int8 products)",
    ),
    Lesson(
        r"multiple values for argument 'dtype'|'(int|constexpr)' object is not iterable",
        "{call} takes the sizes as one tuple",
        "write them in brackets: ((BLOCK_M, BLOCK_N), dtype=tl.float32), and one size with a comma: ((BLOCK_M,), dtype=tl.float32)",
        ("Call",),
    ),
    Lesson(
        r"'range' object",
        "Python's range counts the turns of a `for`, and is no tile of numbers",
        "write tl.arange(0, SIZE)",
    ),
    Lesson(
        r"cannot change total number of elements",
        "tl.reshape must keep the number of elements",
        "check both shapes; x[:, None] adds a dimension of size 1 and needs no reshape",
    ),
    Lesson(
        r"invalid axis (?P<axis>-?\d+)\. Expected (?P<low>-?\d+) <= axis < (?P<high>\d+)",
        "axis {axis} is not there: this tile has {high} dimension(s)",
        "count axes from 0: in a tile [BLOCK_M, BLOCK_N] axis=0 sums over rows, axis=1 over columns",
    ),
    Lesson(
        r"reduction axis must be < inputs rank \((?P<high>\d+)\)",
        "this axis is not there: the tile has {high} dimension(s)",
        "count axes from 0: in a tile [BLOCK_M, BLOCK_N] axis=0 sums over rows, axis=1 over columns",
    ),
    Lesson(
        r"invoked with a 0- or 1-dimensional tensor|permute dims must|permute",
        "tl.trans turns tiles of two dimensions; this has fewer",
        "give a vector its second dimension with [:, None] or [None, :] instead",
    ),
    # ---- loads and stores
    Lesson(
        r"Unsupported ptr type (?P<type>.+?) in `(?P<what>tl\.\w+)`",
        "{what} needs pointers, found {type}",
        "put the tensor's pointer before the offsets, such as x_ptr + offs, and load each tile only once",
    ),
    Lesson(
        r"Pointer argument of \w+ instruction is (?P<type>.+)",
        "{call} needs pointers, found {type}",
        "put the tensor's pointer before the offsets, such as y_ptr + offs",
    ),
    Lesson(
        r"`other` cannot be provided without `mask`",
        "`other` fills what the mask leaves out, and there is no mask",
        "add mask=offs < size, or delete other",
    ),
    Lesson(
        r"(?P<what>Mask|Other) argument cannot be block type if pointer argument is not a block",
        "the pointer is one address, but the {what_lower} is a whole block",
        "add the offsets to the pointer (ptr + offs), or drop the {what_lower}",
    ),
    Lesson(
        r"Value argument cannot be block type if pointer argument is not a block",
        "a whole tile cannot be stored at one address",
        "store it at one pointer an element: y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn",
    ),
    Lesson(
        r"Mask must have boolean scalar type|Mask argument must",
        "a mask must be a comparison, such as offs < N{mask_found}",
        "write the condition that the mask stands for",
    ),
    Lesson(
        r"Expected pointer argument to have shape",
        "the value has more dimensions than the pointers",
        "build the pointers from offsets of rows [:, None] and columns [None, :]",
    ),
    Lesson(
        r"atomic_(?P<op>\w+) does not support (?P<dtype>fp16|bf16)",
        "of the atomics only tl.atomic_add works on {dtype}, found tl.atomic_{op}",
        "add with tl.atomic_add, or store what one program has by itself; a maximum or an exchange needs fp32 or int32 in memory",
    ),
    Lesson(
        r"atomic_(?P<op>\w+) does not support (?P<dtype>.+)",
        "tl.atomic_{op} does not work on {dtype}",
        "use it on fp16, fp32 or int32 values, through pointers of that dtype",
    ),
    Lesson(
        r"cannot add pointers together|invalid operands of type pointers? to .* and pointers? to",
        "two pointers cannot be added: {left} and {right} are both addresses",
        "start from one pointer and add offsets (whole numbers) to it; tl.load what is to be used as a number",
    ),
    Lesson(
        r"invalid operands of type (pointers? to \S+.* and (fp|bf)\d+|(fp|bf)\d+ and pointers? to)",
        "an address plus a float: `/` gives floats, offsets must be whole numbers",
        "use // where the offset is computed",
    ),
    Lesson(
        r"invalid operands of type pointers? to \S+.* and |invalid operands of type .+ and pointers? to ",
        "`{operator}` does not work on a pointer; only adding and subtracting whole numbers does",
        "tl.load the value first, or check which operand should be the pointer",
    ),
    Lesson(
        r"cannot cast (?P<from>pointers? to .+?) to|cannot convert (?P<from_>pointers? to .+?) to|cannot cast .* to pointers? to",
        "this is still an address, not the value that lies there",
        "load it first: tl.load({operand}, mask=...)",
    ),
    Lesson(
        r"__setitem__ is not supported|Subscript_Store",
        "a kernel cannot assign to elements of a tensor or pointer",
        "store to memory with tl.store(ptr + offs, value, mask=...); choose within a tile with tl.where(condition, a, b)",
    ),
    # ---- indices
    Lesson(
        r"unsupported tensor index|tensor index",
        "a tile cannot be indexed or sliced: only [:, None] and [None, :], which add a dimension, exist",
        "load just the part that you need (pointers + tl.arange, with a mask), or pick values with tl.sum(tl.where(...), axis)",
    ),
    Lesson(
        r"`_semantic` argument must be provided outside|Did you forget to add @triton\.jit",
        "`{subscripted}` is {a_pointer}: it cannot be indexed with [ ]",
        "load the element: tl.load({subscripted} + index)",
        ("Subscript",),
    ),
    Lesson(
        r"list index out of range|tuple index out of range",
        "`{text}`: a pointer or number of a kernel has no shape to look at",
        "use the sizes that the lab passes: M, N and K",
        ("Subscript",),
    ),
    # ---- operators
    Lesson(
        r"unexpected type (?P<type>(fp|bf)\d+)",
        "`//` divides whole numbers only, found {type}",
        "write / to divide, or tl.floor(a / b) for a whole number",
        ("BinOp", "AugAssign"),
    ),
    Lesson(
        r"invalid operands of type (?P<a>\S+) and (?P<b>\S+)",
        "`{operator}` works on whole numbers only, {whole}",
        "convert to integers first with .to(tl.int32); // instead of / keeps offsets whole",
    ),
    Lesson(
        r"no attribute '__r?pow__'|'Pow'|operand type\(s\) for \*\*",
        "Triton has no operator ** for what is computed in a kernel",
        "write x * x, or tl.exp2(y * tl.log2(x)) for other powers; make a fixed number a constexpr first: BITS: tl.constexpr = 4",
    ),
    Lesson(
        r"'(NotIn|In)'|comparison operator '(NotIn|In)'",
        "Triton has no `in`",
        "compare with == and join with |",
    ),
    Lesson(
        r"simultaneous multiple comparison is not supported",
        "{comparison}",
        "{comparison_next}",
    ),
    Lesson(
        r"Boolean value of Tensor with more than one value is ambiguous|truth value of an array with more than one element",
        "a condition on a whole block has no single answer: each element has its own",
        "choose element by element with tl.where(condition, a, b), or pass the condition as mask= of tl.load and tl.store",
    ),
    Lesson(
        r"Ternary expression with dynamic condition has inconsistent types (?P<a>.+) and (?P<b>.+)",
        "both sides of this `if else` must have one type, found {a} and {b}",
        "convert one of them, or use tl.where(condition, a, b)",
    ),
    Lesson(
        r"Only floating point clamp is supported",
        "tl.clamp works on floats only",
        "clamp before the conversion to integers, or write tl.minimum(tl.maximum(x, low), high)",
    ),
    Lesson(
        r"Expected dtype \['fp32', 'fp64'\] but got (?P<dtype>\w+)",
        "{call} works on fp32, found {dtype}",
        "convert the operand first: .to(tl.float32)",
    ),
    Lesson(
        r"Cannot (use|mod) .* (and|by) .*|unexpected signedness",
        "`{operator}` does not mix signed and unsigned numbers",
        "convert both to tl.int32",
    ),
    Lesson(
        r"Scalar (?P<value>\S+) is out of range for type (?P<dtype>\w+)",
        "the number {value} does not fit {dtype}",
        "convert the tensor to a wider type first, such as .to(tl.int32)",
    ),
    Lesson(
        r"Nonrepresentable integer (?P<value>\S+)\.?",
        "the number {value} does not fit 64 bits",
        "use a smaller number",
    ),
    Lesson(
        r"Cannot bitcast data-type of size (?P<a>\d+) to data-type of size (?P<b>\d+)",
        "bitcast=True needs both types of one width, found {a} and {b} bits",
        "convert to {b} bits first, such as .to(tl.int{b}), or leave bitcast out to convert the value",
    ),
    # ---- control flow
    Lesson(
        r"For loop bounds and step must all be ints, are \(.*pointer",
        "the bounds of this loop are pointers: the numbers that they point to were never loaded",
        "load them first: tl.load(ptr + index)",
    ),
    Lesson(
        r"For loop bounds and step must all be ints, are (?P<types>\(.*\))",
        "the bounds and the step of a loop must be whole numbers, found {types}",
        "use tl.cdiv(a, b) or a // b instead of a / b",
    ),
    Lesson(
        r"For (?P<what>lower bound|upper bound|step) must be a scalar, got (?P<type>.+)",
        "the {what} of this loop is a whole block ({type}), it must be one number",
        "load it through one pointer (ptr + index), or reduce it with tl.max(x, axis=0)",
    ),
    Lesson(
        r"triton\.cdiv got a value that is known only at run time",
        "triton.cdiv computes while compiling, but this call gives it a value that is known only at run time",
        "write tl.cdiv(a, b)",
    ),
    Lesson(
        r"triton\.next_power_of_2 got a value that is known only at run time",
        "triton.next_power_of_2 computes while compiling, but this call gives it a value that is known only at run time",
        "give it constexpr values (BLOCK_K), or compute it in @triton.heuristics and take it as a tl.constexpr parameter",
    ),
    Lesson(
        r"constexpr_function got a value that is known only at run time",
        "a function under @triton.constexpr_function runs while compiling, but this call gives it a value that is known only at run time",
        "give it constexpr values (BLOCK_K), or put the function under @triton.jit",
    ),
    Lesson(
        r"static_range .*value is not a constexpr",
        "tl.static_range unrolls its loop while compiling, so its bounds must be constexpr{passed}",
        "use range(...) or tl.range(...) for bounds that are known only at run time",
    ),
    Lesson(
        r"has no attribute 'func'|Only `range` and `static_range`|iterator|'func'",
        "a `for` in a kernel runs over range(...), tl.range(...) or tl.static_range(...) only, found `{iterated}`",
        "count with range(n) and compute or load what you need from the index",
        ("For",),
    ),
    Lesson(
        r"only tuple comprehensions are supported|nested comprehensions",
        "a kernel cannot build lists",
        "make a tile at once, such as tl.arange(0, BLOCK_K) or tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
    ),
    Lesson(
        r"nested function definition is not supported",
        "a kernel cannot define a function inside itself",
        "move it out to the top of the file, with @triton.jit above it",
    ),
    Lesson(
        r"non-constexpr conversion values|f-string",
        "an f-string cannot show values that are known only at run time",
        'print with tl.device_print("acc", acc)',
    ),
    Lesson(
        r"is not (an ascii )?string",
        "the first argument of a print must be a string",
        'write tl.device_print("name", value)',
    ),
    Lesson(
        r"Assertion condition could not be determined at compile-time",
        "tl.static_assert is checked while compiling, but this condition is known only at run time",
        "use it on constexpr values (BLOCK_K), or tl.device_assert for the others",
    ),
    Lesson(
        r"CompileTimeAssertionFailure: (?P<words>.*)",
        "tl.static_assert does not hold for this config{assertion}",
        "change the sizes in the config, or the assertion",
    ),
    Lesson(
        r"[Ss]imultaneous multiple assignment",
        "Triton has no a = b = value",
        "write two assignments",
    ),
    Lesson(
        r"object has no attribute 'values'|cannot unpack non-iterable",
        "one value cannot be unpacked into several names",
        "assign to one name; only a function that returns several values can be unpacked",
        ("Assign",),
    ),
    Lesson(
        r"Attribute assignment is not supported",
        "a kernel cannot set attributes",
        "use a plain variable",
    ),
    # ---- calls
    Lesson(
        r"missing (?:\d+ )?(?:a )?required (?:positional |keyword-only )?arguments?: (?P<missing>.+)",
        "{call} lacks its argument {missing}{signature}",
        "{example}",
        ("Call",),
    ),
    Lesson(
        r"unexpected keyword argument '(?P<word>\w+)'",
        "{call} has no argument `{word}`{signature}",
        "remove it, or pass the value by position",
    ),
    Lesson(
        r"too many positional arguments|takes .* positional arguments? but \d+ (was|were) given",
        "{call} got too many arguments{signature}",
        "remove what is too much",
    ),
    Lesson(
        r"multiple values for argument '_semantic'",
        "{call} got too many arguments{signature}",
        "remove what is too much: {example}",
    ),
    Lesson(
        r"multiple values for argument '(?P<word>\w+)'",
        "{call} got its argument `{word}` twice{signature}",
        "pass it once, by position or by name",
    ),
    Lesson(
        r"not supported between instances of '\w+' and 'NoneType'|unsupported operand type\(s\) for .*'NoneType'",
        "{call} needs an argument that this call leaves out{signature}",
        "add it: an axis is counted from 0, such as tl.flip(x, 0)",
        ("Call",),
    ),
    Lesson(
        r"program_id axis must be 0, 1, or 2 but got (?P<axis>\w+)",
        "tl.program_id counts dimensions of the grid from 0 to 2, found {axis}",
        "use tl.program_id(0), (1) or (2)",
    ),
    Lesson(
        r"cannot convert .* of type <class '[\w.]*tuple'> to tensor",
        "several values stand where one is expected",
        "give each a name first: first, last = f(...)",
    ),
    Lesson(
        r"'str' object|cannot convert .* of type <class 'str'> to tensor",
        "a string stands where a dtype or a number is expected",
        'write it without quotes: tl.int32 instead of "int32", 127.0 instead of "127.0"',
    ),
    Lesson(
        r"(?P<builtin>float|int|bool)\(\) argument must be",
        "Python's {builtin}() does not work on a tensor",
        "convert with x.to(tl.float32) or x.to(tl.int32)",
    ),
    Lesson(
        r"object of type '\w+' has no len\(\)",
        "a tensor has no len() in a kernel",
        "use its shape, such as x.shape[0], or the constexpr that it was made with, such as BLOCK_K",
    ),
    Lesson(
        r"(?P<what>min|max) requires at least 2 values",
        "Python's {call} of one tensor does not reduce it",
        "write tl.{call}(x, axis=0) to reduce a tile, tl.{call}imum(a, b) for the {call} of two",
    ),
    Lesson(
        r"The result of (?P<what>\S+) is not being used",
        "the result of {what} is not used: it changes nothing in place",
        "assign it: x = {what}(...)",
    ),
    Lesson(
        r"Cannot broadcast, rank mismatch: (?P<a>.+), (?P<b>.+)",
        "a tile of shape {a} cannot be spread over {b}: they differ in the number of dimensions",
        "add the missing one with [:, None] or [None, :]",
    ),
    Lesson(
        r"cannot cast void|cannot convert void|void\[\]",
        "tl.store gives no value",
        "store in one statement and compute in another",
    ),
    # ---- the interpreter
    Lesson(
        r"(operands could not be broadcast together with shapes|could not broadcast .* shape) (?P<a>\(.*?\))"
        r"( into shape)? (?P<b>\(.*?\))",
        "two values have shapes that do not fit: {shapes}",
        "spread rows with [:, None] and columns with [None, :]",
    ),
    Lesson(
        r"IndexError: .*out of bounds|IndexError: index",
        "an index lies outside of what it indexes",
        "read elements with tl.load and a mask",
    ),
    Lesson(
        r"RecursionError|maximum recursion depth",
        "a function calls itself without end, or an expression is nested too deeply",
        "write a loop instead",
    ),
    # ---- the later passes, which print an error with its line
    Lesson(
        r"op operand #\d must be 1-bit",
        "the mask is no condition: it holds numbers",
        "write the condition that it stands for, such as mask=offs < M",
    ),
    Lesson(
        r"'tt\.(atomic_rmw|atomic_cas)' op .*(ptr type matches|type matches)",
        "the value that is added has another shape or dtype than what the pointers point to",
        "add at one pointer an element (y_ptr + offsets), with value.to(tl.float16) where Y is fp16",
    ),
    Lesson(
        r"loop body should only have one block",
        "this loop has a `return` in its body: it would end in its first turn",
        "move the return after the loop, to the column of its `for`",
        node=("For", "While"),
    ),
    Lesson(
        r"type of return operand|return operand .* match function result",
        "a kernel returns nothing: its results are what it stores",
        "delete the value after return, and write results with tl.store",
    ),
    Lesson(
        r"'tt\.\w+' op |'arith\.\w+' op |'scf\.\w+' op ",
        "the compiler cannot make code of this line: shapes or dtypes of its operands do not fit",
        "check the shape and dtype of each operand here, or compute it in two steps",
    ),
    # ---- and those that name none
    Lesson(
        r"uses too much shared data|out of resource: shared memory",
        "these tiles need more shared memory than a program has",
        "use smaller tiles or fewer stages (num_stages)",
    ),
    Lesson(
        r"ptxas .*?error\s*: (?P<said>.+?)(?= ptxas |$)",
        "NVIDIA's assembler refuses what this config makes of the kernel: {said}",
        "look for what these words are about in the options of loads and stores and in inline assembly; then try smaller tiles",
    ),
    Lesson(
        r"PTXAS|ptxas",
        "NVIDIA's assembler refuses what this config makes of the kernel",
        "use smaller tiles, leave maxnreg out, or drop inline assembly",
    ),
    Lesson(
        r"PassManager::run failed|LLVM ERROR",
        "Triton's later passes fail on what this config makes of the kernel",
        "try other tiles, fewer stages or warps; then leave out lines until it compiles to find the one that fails",
    ),
)  # fmt: skip

CONSTRUCTS = {
    "Break": ("`break` does not exist in a kernel", "put the condition into the bound of the loop (while condition:) or into masks"),
    "Continue": ("`continue` does not exist in a kernel", "put the rest of the loop under an `if`, or mask it"),
    "Dict": ("a kernel has no dictionaries", "use one variable for each value"),
    "Set": ("a kernel has no sets", "use one variable for each value"),
    "SetComp": ("a kernel has no comprehensions", "make a tile at once, such as tl.arange(0, BLOCK)"),
    "DictComp": ("a kernel has no comprehensions", "use one variable for each value"),
    "GeneratorExp": ("a kernel has no comprehensions", "use a for loop over range, or make a tile at once"),
    "ListComp": ("a kernel cannot build lists", "make a tile at once, such as tl.arange(0, BLOCK)"),
    "NamedExpr": ("a kernel has no := inside an expression", "assign on a line of its own"),
    "Lambda": ("a kernel has no lambda", "write a function under @triton.jit at the top of the file"),
    "Try": ("a kernel cannot catch errors: there is no try", "delete try and except; guard memory with masks"),
    "Raise": ("a kernel cannot raise", "use tl.device_assert, or tl.static_assert for what is known while compiling"),
    "Delete": ("a kernel has no del", "delete the line; values go away by themselves"),
    "Import": ("a kernel cannot import", "put the import at the top of the file"),
    "ImportFrom": ("a kernel cannot import", "put the import at the top of the file"),
    "Global": ("a kernel has no global variables", "pass values as parameters, and store results with tl.store"),
    "Nonlocal": ("a kernel has no nonlocal variables", "pass values as parameters of a helper and return them"),
    "Starred": ("a kernel cannot unpack with *", "write each value out; two that a function returns: first, last = f(...)"),
    "Yield": ("a kernel cannot yield", "store results with tl.store"),
    "Await": ("a kernel cannot await", "delete it"),
    "ClassDef": ("a kernel cannot define a class", "write functions under @triton.jit at the top of the file"),
    "Match": ("a kernel has no match", "write if and elif"),
    "JoinedStr": ("an f-string cannot show values of a kernel", 'print with tl.device_print("name", value)'),
    "With": ("a kernel has no with", "write the lines of its body without it"),
    "Assert": ("a plain assert cannot look at tensors here", "use tl.device_assert(condition, text)"),
}  # fmt: skip
"""Syntax that Triton does not compile: what it is, what to write instead."""
