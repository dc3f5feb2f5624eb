# `make` compiles the kernel for this computer and runs the program; `make HW=generic-c` uses plain C.
HW = host
SIZES = M=256 N=512
# The flags stand in the first comment of the emitted file; gcc needs the others, which clang does not know.
FLAGS = $(shell sed -n 's/.*Compile with \(.*\);/\1/p' out/NAME.c)
GCC = -fno-tree-loop-vectorize -fno-tree-coalesce-vars -fno-tree-sink -fno-tree-loop-distribute-patterns \
  -fno-predictive-commoning -fno-schedule-insns2
CC = gcc

run: NAME
	./NAME

NAME: main.c out/NAME.c
	$(CC) $(FLAGS) $(GCC) -Iout main.c out/NAME.c -o NAME

out/NAME.c: NAME.ir Makefile
	isamap compile NAME.ir --hw $(HW) -D $(SIZES) -o out

verify:
	isamap verify NAME.ir --hw $(HW) -D M=5 N=7

clean:
	rm -rf NAME out

.PHONY: run verify clean
