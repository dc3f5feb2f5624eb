// run IMAGE WORDS: performs words of 128 bits on main memory from its second page on, as in IMAGE, which it writes back.
// The first pages that VTA's driver gives out are those, so that addresses are what the words say.
#include <vta/driver.h>

#include <cstdio>
#include <cstring>
#include <vector>

static std::vector<char> read_all(const char *path) {
  std::vector<char> found;
  FILE *file = std::fopen(path, "rb");
  if (!file) std::exit(2);
  for (int byte; (byte = std::fgetc(file)) != EOF;) found.push_back(static_cast<char>(byte));
  std::fclose(file);
  return found;
}

int main(int, char **argv) {
  std::vector<char> image = read_all(argv[1]), words = read_all(argv[2]);
  void *memory = VTAMemAlloc(image.size(), 0);
  if (VTAMemGetPhyAddr(memory) != VTA_PAGE_BYTES) return 3;
  void *program = VTAMemAlloc(words.size(), 0);
  std::memcpy(memory, image.data(), image.size());
  std::memcpy(program, words.data(), words.size());
  VTADeviceHandle device = VTADeviceAlloc();
  int status = VTADeviceRun(device, VTAMemGetPhyAddr(program), static_cast<uint32_t>(words.size() / 16), 1000);
  std::memcpy(image.data(), memory, image.size());
  FILE *file = std::fopen(argv[1], "wb");
  if (!file) return 2;
  std::fwrite(image.data(), 1, image.size(), file);
  return std::fclose(file) ? 2 : status;
}
