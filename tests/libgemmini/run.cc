// run IMAGE WORDS: performs commands of three words each (instruction, rs1, rs2) on an image of main memory, which
// it writes back. x10 and x11 hold the two values, as a program that gives commands would have them.
#include <riscv/rocc.h>

static std::vector<uint8_t> read_all(const char *path) {
  std::vector<uint8_t> found;
  FILE *file = std::fopen(path, "rb");
  if (!file) std::exit(2);
  for (int byte; (byte = std::fgetc(file)) != EOF;) found.push_back(byte);
  std::fclose(file);
  return found;
}

int main(int, char **argv) {
  processor_t processor;
  processor.extension = make_extension();
  processor.mmu.bytes = read_all(argv[1]);
  std::vector<uint8_t> words = read_all(argv[2]);
  insn_desc_t custom = processor.extension->get_instructions(processor)[0];
  auto word = [&](size_t at) {
    reg_t value = 0;
    for (int byte = 7; byte >= 0; byte--) value = value << 8 | words.at(8 * at + byte);
    return value;
  };
  for (size_t at = 0; at < words.size() / 8; at += 3) {
    insn_t instruction{static_cast<uint32_t>(word(at))};
    if ((instruction.bits & custom.mask) != custom.match) return 3;
    processor.state.XPR.write(10, word(at + 1));
    processor.state.XPR.write(11, word(at + 2));
    custom.func(&processor, instruction, 0);
  }
  FILE *file = std::fopen(argv[1], "wb");
  if (!file) return 2;
  std::fwrite(processor.mmu.bytes.data(), 1, processor.mmu.bytes.size(), file);
  return std::fclose(file);
}
