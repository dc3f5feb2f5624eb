#pragma once
#include "extension.h"

struct rocc_insn_t {
  unsigned opcode : 7, rd : 5, xs2 : 1, xs1 : 1, xd : 1, rs1 : 5, rs2 : 5, funct : 7;
};
union rocc_insn_union_t {
  rocc_insn_t r;
  insn_t i;
};

#define ROCC_OPCODE3 0x7b
#define ROCC_OPCODE_MASK 0x7f
#define ILLEGAL_INSN_FUNC nullptr
inline void push_custom_insn(std::vector<insn_desc_t> &all, uint32_t match, uint32_t mask, insn_func_t, insn_func_t f) {
  all.push_back({match, mask, f});
}
