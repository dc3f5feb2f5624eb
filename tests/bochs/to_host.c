/* Writes a file to the port that Bochs prints, behind a line that says so, and ends the emulator. */
#include <stdio.h>
#include <sys/io.h>

static void put(const char *text, unsigned short port) {
  for (; *text; text++) outb(*text, port);
}

int main(int count, char **words) {
  static unsigned char room[1 << 16];
  FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
  size_t got;
  if (!file || iopl(3)) {
    perror("to_host");
    return 1;
  }
  put("\nISAMAP RESULT\n", 0xe9);
  while ((got = fread(room, 1, sizeof room, file)) > 0)
    for (size_t i = 0; i < got; i++) outb(room[i], 0xe9);
  put("Shutdown", 0x8900);
  return 0;
}
