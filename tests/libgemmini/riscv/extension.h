// As much of Spike's interface as libgemmini asks for, so that it runs without Spike: registers, memory, one
// custom instruction. Written from what libgemmini calls.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

using reg_t = uint64_t;

struct insn_t {
  uint32_t bits;
  reg_t rs1() const { return bits >> 15 & 31; }
  reg_t rs2() const { return bits >> 20 & 31; }
  reg_t rd() const { return bits >> 7 & 31; }
};

struct registers_t {
  reg_t value[32] = {};
  reg_t operator[](size_t i) const { return value[i]; }
  void write(size_t i, reg_t v) { value[i] = v; }
};

struct written_t { reg_t low, high; };
struct state_t {
  registers_t XPR;
  std::map<reg_t, written_t> log_reg_write;
};

struct mmu_t {
  std::vector<uint8_t> bytes;
  // 0 stands for zeros and is never read; all else outside the image ends the run.
  template <class T> T load(reg_t at) { return bytes.at(at); }
  template <class T> void store(reg_t at, T value) { bytes.at(at) = value; }
};

struct extension_t;
struct processor_t {
  state_t state;
  mmu_t mmu;
  extension_t *extension = nullptr;
  state_t *get_state() { return &state; }
  mmu_t *get_mmu() { return &mmu; }
  extension_t *get_extension(const char *) { return extension; }
  bool get_log_commits_enabled() const { return false; }
};

using insn_func_t = reg_t (*)(processor_t *, insn_t, reg_t);
struct insn_desc_t { uint32_t match, mask; insn_func_t func; };
struct disasm_insn_t {};

struct extension_t {
  virtual const char *name() const = 0;
  virtual std::vector<insn_desc_t> get_instructions(const processor_t &) = 0;
  virtual std::vector<disasm_insn_t *> get_disasms(const processor_t *) = 0;
  virtual ~extension_t() {}
};

inline extension_t *(*make_extension)() = nullptr;
#define REGISTER_EXTENSION(name, make) \
  static bool registered_##name = ((make_extension = []() -> extension_t * { return (make)(); }), true);
