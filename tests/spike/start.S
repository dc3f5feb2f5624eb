# A program without an operating system on Spike: custom instructions are allowed, `main` is called, and its result is told
# to the host, which writes down what lies between the two signatures: the image of main memory.
.section .text.start
.globl _start
_start:
  li t0, 0x1e600      # mstatus: state of floating point, vectors and extensions is on
  csrs mstatus, t0
  la sp, stack_end
  call main
  la t1, tohost
  slli a0, a0, 1
  ori a0, a0, 1       # done, with this status
  sd a0, 0(t1)
1:
  j 1b

.section .tohost, "aw"
.align 6
.globl tohost
tohost: .dword 0
.align 6
.globl fromhost
fromhost: .dword 0

.bss
.align 12
.space 65536
stack_end:

.data
.align 12
.globl begin_signature
.globl end_signature
begin_signature:
.incbin "image"
.align 4
end_signature:
