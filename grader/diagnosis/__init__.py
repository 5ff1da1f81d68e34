"""Why is a kernel wrong? What a few recorded launches did, put beside what the lab says, column by column, in the order of the flow.

Read it in this order, half an hour in all:

1. `observation`: what is said, and COLUMNS, the order in which everything is compared.
2. `grader.labs.expected`: what should stand there, which each lab says of itself.
3. The engine, which knows no right or wrong. `tape`: a launch as operations with lines and values. `provenance`: from which elements
   of which tensor a value comes. `flow`: how an element of Y came about, as a sum of factor * left * right.
   `history`: what became of one element, step by step.
4. `relation`: the same as a table, a column for all that can deviate. `fit`: a column as an integer combination, with names.
5. `compare`: the columns in order, and which deviation makes the next ones uncertain. Then the columns, each on its own:
   `stores` and `programs` (who stores what), `addresses` and `lookups` (which elements meet), `counts` (each k once), `values` (what the
   operands hold), `sums` and `precision` (what becomes of the products), `scales` (what they are multiplied by).
6. Which line: that of a number which, were it another one, would put right what deviates, and nothing right would change. `mending` asks
   backwards, which numbers of an address or a mask that could be. `replaying` computes again with another number: `tile_numbers` which
   tiles the programs store, `looping` which k their loops meet. `definition`: what is made of what, and where to look first for what
   was not tried, such as conditions; `statements`: which stands in which; `reordering`: where a tile was moved. These alone may err:
   all else is measured.
7. `catalogue`: names, where a known mistake gives the same numbers. `explaining`: which launches to record, and what they agree on.
   `reasons`: the sentences, and what is said of a kernel that cannot be followed.
"""
