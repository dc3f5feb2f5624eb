"""The codes of programs as words: what words cannot say, and what is wrong with those of a file."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

STREAM_CODES: dict[str, Explanation] = {
    "encoding-range": Explanation(
        "a number that its field cannot hold",
        "A field holds multiples of its `unit`, up to what its bits can write. A stride or an address of "
        "this program is none of them.",
    ),
    "no-encoding": Explanation(
        "an instruction without words",
        "A program of words is made where `program` of the machine gives the size of a word, and each "
        "instruction that the schedule issues has an `encoding`.",
    ),
    "program-access": Explanation(
        "an instruction of a program that goes wrong",
        "A program is performed on images of the machine's memories. An access has to lie in its memory, "
        "and in main memory within one array; what is read has to have been written before; inputs are not "
        "written; what one word does at once writes nothing twice.",
    ),
    "program-file": Explanation(
        "a file that is no program",
        "A program's file begins with ISAMPROG, the version of its format and a header that names its "
        "memories and arrays; the words follow. The manual's page on programs says which byte means what.",
    ),
    "program-mismatch": Explanation(
        "a program of something else",
        "The header of a program names its machine with the digest of the description, its sizes and its "
        "arrays. Kernel, machine and sizes on the command line have to be those.",
    ),
    "program-tokens": Explanation(
        "a program whose tokens do not keep its units in order",
        "Units perform their words side by side, and wait for tokens alone. Each token that is taken has to "
        "be given and each that is given has to be taken, no queue may be asked to hold more than it can, "
        "and where two units touch the same bytes a token has to say which is first.",
    ),
    "program-word": Explanation(
        "words that are no instruction",
        "Words are read back by the fields of the machine's encodings: all constants have to be there, bits "
        "of no field are zero, and parameters lie in their ranges. A loop of the hardware has words to "
        "repeat, and addresses grow nowhere else.",
    ),
    "stream-tokens": Explanation(
        "a program that no tokens keep in order",
        "Tokens go through the queues that `program` of the machine has, each of which holds so many. This "
        "program needs one where there is none, or more than fit.",
    ),
    "stream-too-long": Explanation(
        "a program with too many instructions",
        "Loops are written out in a program of words, so that it grows with the sizes. What has loops is "
        "the C code that `compile` writes by default.",
    ),
    "stream-unsupported": Explanation(
        "something that no word of a program says",
        "A program of words is made for sizes that are numbers, with one image of main memory, and consists "
        "of instructions alone: what a host would do between them, no word does.",
    ),
}
